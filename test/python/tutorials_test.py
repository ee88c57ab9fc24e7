#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutorials_test.py RINGCOMM_RUN [torchrun] [ringcomm-run] [spawn] [fork]: programs of tutorials.

Runs each program over gloo and over ringcomm, started by each of the named methods. The output of each
rank must be the same, the exit status 0, and stderr must have no more lines than over gloo. Under a
launcher a program names the backend "ringcomm". Programs that start their own processes are run as
they are, with RINGCOMM_TORCH_AS=gloo.
"""
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / 'tutorials'
LARGE_SCALE = HERE / 'large_scale'
MAIN = re.compile(r'^if __name__ == "__main__":.*', re.S | re.M)
LIMIT_S = 300
RANKS_OF = {'p2p_communication': 2, 'p2p_communication_non_blocking': 2, 'process_group_2': 1,
            'process_group_3': 1, 'distributed_training': 2}
NEEDS_NO_ADDRESS = 'process_group_1'  # shows the error of a missing address
FAILED = []


# ---- Preparing programs -----------------------------------------------------------------------------

def without_gpu(text):
    text = text.replace('.to(torch.cuda.current_device())', '')
    text = re.sub(r', ?device=torch\.device\(torch\.cuda\.current_device\(\)\),?', '', text)
    return re.sub(r'^torch\.cuda\.set_device\(rank\)\n', '', text, flags=re.M)


def with_backend(text, backend):
    return re.sub(r'"(nccl|gloo)"|\'gloo\'', f'"{backend}"', text)


def with_local_mnist(text):
    return text.replace('from torchvision import', 'from mnist_subset import')


def for_launcher(text, function, backend):
    """The program without its own start of processes."""
    start = (f'dist.init_process_group("{backend}")\n'
             f'{function}(dist.get_rank(), dist.get_world_size())\n')
    return MAIN.sub(lambda _: start, text)


def write_programs(folder, backend):
    """The programs for a launcher. Returns them as run_programs.py takes them."""
    texts = {path.stem: with_backend(without_gpu(path.read_text()), backend)
             for path in sorted(LARGE_SCALE.glob('*.py')) if path.stem != NEEDS_NO_ADDRESS}
    texts['six_collectives'] = for_launcher((HERE / 'six_collectives.py').read_text(), 'func', backend)
    texts['distributed_training'] = with_local_mnist(
        for_launcher((HERE / 'distributed_training.py').read_text(), 'run', backend))
    items = []
    for name, text in texts.items():
        (folder / f'{name}.py').write_text(text)
        items.append(f'{folder}/{name}.py' + (f':{RANKS_OF[name]}' if name in RANKS_OF else ''))
    return items


# ---- Comparing output ----------------------------------------------------------------------------------

def normalised(text):
    """Addresses of objects, the class of process groups, and the times of torch's log differ."""
    text = re.sub(r'^\[W[\d:. ]+', '[W ', text, flags=re.M)
    return re.sub(r'<[\w.]+(Group) object at 0x\w+>', r'<\1>', text)


def comparable(text):
    """Lines as a multiset, because ranks print at the same time. After reduce only rank 0's result is defined:
    gloo leaves partial sums at the others, which print their result as their first "data" line."""
    lines, seen = [], set()
    for line in normalised(text).splitlines():
        found = re.match(r'\[([1-9])\] data = ', line)
        if found and found[1] not in seen:
            seen.add(found[1])
            continue
        lines.append(line)
    return collections.Counter(lines)


def compare(name, found, expected):
    for stream, text, wanted in zip(('stdout', 'stderr'), found, expected):
        if stream == 'stderr':  # torch sometimes repeats its own lines
            differs = set(comparable(text)) - set(comparable(wanted))
        else:
            differs = comparable(text) != comparable(wanted)
        if differs:
            FAILED.append(name)
            print(f'{name}: {stream} differs\n-- over ringcomm:\n{text}\n-- over gloo:\n{wanted}')


def run(name, command, **variables):
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'GLOO_SOCKET_IFNAME': 'lo', **variables}
    environment['PYTHONPATH'] = os.pathsep.join([environment.get('PYTHONPATH', ''), str(HERE)])
    environment.pop('PYTHONUNBUFFERED', None)  # lines written in parts would mix with others
    ranks = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, start_new_session=True)
    try:
        out, err = ranks.communicate(timeout=LIMIT_S)
        reason = f'ended with status {ranks.returncode}' if ranks.returncode else None
    except subprocess.TimeoutExpired:
        os.killpg(ranks.pid, signal.SIGKILL)
        out, err = ranks.communicate()
        reason = f'did not end within {LIMIT_S} s'
    if reason:
        FAILED.append(name)
        print(f'{name} {reason}', out, err, sep='\n')
    return out, err


# ---- Methods to start -------------------------------------------------------------------------------------

def by_launcher(name, launcher, folder):
    results = []
    for backend in ('gloo', 'ringcomm'):
        outputs = folder / f'{name}-{backend}'
        outputs.mkdir()
        items = write_programs(outputs, backend)
        run(f'{name} {backend}',
            [*launcher, str(HERE / 'run_programs.py'), str(outputs), *items])
        results.append({path.name: path.read_text()
                        for path in outputs.iterdir() if path.suffix in ('.out', '.err')})
    gloo, ours = results
    if not ours.keys() == gloo.keys():
        FAILED.append(name)
        print(f'{name}: outputs of other programs: {ours.keys() ^ gloo.keys()}')
    for key in sorted(gloo):
        if key.endswith('.out'):
            error = key[:-3] + 'err'
            compare(f'{name} {key}', (ours.get(key, ''), ours.get(error, '')), (gloo[key], gloo[error]))


def by_itself(method, folder):
    for name in ('six_collectives', 'distributed_training'):
        text = with_local_mnist((HERE / f'{name}.py').read_text())
        program = folder / f'{name}_{method}.py'
        program.write_text(text.replace('set_start_method("spawn")', f'set_start_method("{method}")'))
        command = [sys.executable, str(program)]
        gloo = run(f'{name} {method} gloo', command)
        assert gloo[0], f'{name} printed nothing'
        compare(f'{name} {method}', run(f'{name} {method}', command, RINGCOMM_TORCH_AS='gloo'), gloo)


def without_address(folder):
    """The tutorial's error: no address is set."""
    last_lines = []
    for backend in ('gloo', 'ringcomm'):
        program = folder / f'{NEEDS_NO_ADDRESS}_{backend}.py'
        program.write_text(with_backend((LARGE_SCALE / f'{NEEDS_NO_ADDRESS}.py').read_text(), backend))
        ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=LIMIT_S)
        last_lines.append((ended.returncode, ended.stderr.splitlines()[-1]))
    if last_lines[0] != last_lines[1] or last_lines[0][0] == 0:
        FAILED.append(NEEDS_NO_ADDRESS)
        print(f'{NEEDS_NO_ADDRESS}: {last_lines}')


def enter_network():
    """Gives the programs, which use fixed ports, a network of their own if this user may create one."""
    own = ['unshare', '--map-root-user', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
    if 'OWN_NETWORK' in os.environ or subprocess.run([*own, 'true'], capture_output=True).returncode:
        return
    os.environ['OWN_NETWORK'] = '1'
    os.execvp(own[0], [*own, sys.executable, *sys.argv])


def main():
    enter_network()
    ringcomm_run, ways = sys.argv[1], sys.argv[2:]
    launchers = {
        'torchrun': [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '4'],
        'ringcomm-run': [ringcomm_run, '-n', '4', '--bind', 'none', '--', sys.executable],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for way in ways:
            if way in launchers:
                by_launcher(way, launchers[way], folder)
            else:
                by_itself(way, folder)
        if 'torchrun' in ways:
            without_address(folder)
    sys.exit(f'failed: {FAILED}' if FAILED else 0)


if __name__ == '__main__':
    main()
