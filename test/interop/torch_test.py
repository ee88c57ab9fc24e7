#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Our stores against torch's own, both directions: torch_test.py STORE_PEER RANKS

STORE_PEER is store_peer.c, which opens our store and takes commands; RANKS is
test/launch/launched_rank.c. Runs once in every Python that has torch: those named in
RINGCOMM_TEST_PYTHONS (paths, separated by ":"), else python3. Exit status 77 where there is none.

Every case gets two users of one store, of which one or both are torch's or ours. So each case runs
with torch serving and with our server, over TCP, and over a shared file.
"""
import concurrent.futures
import contextlib
import datetime
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

LIMIT_S = 60
TINY_S = 0.5
MIB = 1024 * 1024


class Missed(Exception):
    """A wait that ended without the key."""


class Refused(Exception):
    """The call failed in another way."""


# ---- Ours ----------------------------------------------------------------------------------------

class Ours:
    """store_peer.c in a process of its own."""
    name = 'ours'

    def __init__(self, peer, url, **env):
        self.process = subprocess.Popen([peer], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=dict(clean_environment(), **env), text=True)
        self.request('open', url, '20000')

    def request(self, *words):
        self.process.stdin.write(' '.join(words) + '\n')
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], LIMIT_S)[0]:
            self.process.kill()
        status, *rest = self.process.stdout.readline().rstrip('\n').split(' ')
        if status == 'RCM_ERR_TIMEOUT':
            raise Missed(' '.join(rest))
        if status != 'RCM_OK':
            raise Refused(' '.join([status, *rest]))
        return rest

    @staticmethod
    def hex(data):
        return (data.encode() if isinstance(data, str) else data).hex() or '-'

    @staticmethod
    def unhex(word):
        return b'' if word == '-' else bytes.fromhex(word)

    def url(self):
        return self.request('url')[0]

    def set(self, key, value):
        self.request('set', self.hex(key), self.hex(value))

    def get(self, key, seconds=10):
        return self.unhex(self.request('get', self.hex(key), str(int(seconds * 1000)))[0])

    def wait(self, keys, seconds=10):
        self.request('wait', str(int(seconds * 1000)), *map(self.hex, keys))

    def check(self, key):
        try:
            self.request('try_get', self.hex(key))
            return True
        except Refused as e:
            assert 'RCM_ERR_NOT_FOUND' in str(e), e
            return False

    def add(self, key, number):
        return int(self.request('add', self.hex(key), str(number))[0])

    def compare_set(self, key, expected, desired):
        """Returns the value afterwards; for a missing key the expected value, like torch."""
        try:
            return self.unhex(self.request('compare_set', *map(self.hex, (key, expected, desired)))[0])
        except Refused as e:
            assert 'RCM_ERR_NOT_FOUND' in str(e), e
            return expected.encode()

    def delete(self, key):
        return self.request('delete', self.hex(key)) == ['1']

    def count(self):
        return int(self.request('count')[0])

    def append(self, key, value):
        self.request('append', self.hex(key), self.hex(value))

    def multi_set(self, keys, values):
        self.request('multi_set', *(self.hex(x) for pair in zip(keys, values) for x in pair))

    def multi_get(self, keys):
        return [*map(self.unhex, self.request('multi_get', '10000', *map(self.hex, keys)))]

    def extended(self):
        """Whether the store can append: torch before 2.1 cannot."""
        try:
            self.append('appended', b'')
            return True
        except Refused as e:
            assert 'torch is older than 2.1' in str(e), e
            return False

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(20) == 0, self.process.returncode


# ---- Torch's -------------------------------------------------------------------------------------

class Torch:
    """A store of torch with the same methods. hidden: the internal keys that torch counts."""
    name = 'torch'

    def __init__(self, store):
        self.store, self.hidden = store, 0

    @contextlib.contextmanager
    def patience(self, seconds):
        try:
            yield datetime.timedelta(seconds=seconds)
        except RuntimeError as e:  # DistStoreError is a RuntimeError
            if 'imeout' in str(e) or 'imed out' in str(e):
                raise Missed(str(e)) from e
            raise Refused(str(e)) from e

    def set(self, key, value):
        with self.patience(0):
            self.store.set(key, value)
            self.arrive()

    def arrive(self):
        """torch does not wait for the answer to a set: another client's get may arrive first."""
        self.store.num_keys()

    def get(self, key, seconds=10):
        self.wait([key], seconds)
        return bytes(self.store.get(key))

    def wait(self, keys, seconds=10):
        with self.patience(seconds) as t:
            self.store.wait(keys, t)

    def check(self, key):
        """None: torch 1.13 has no check."""
        return self.store.check([key]) if hasattr(self.store, 'check') else None

    def add(self, key, number):
        return self.store.add(key, number)

    def compare_set(self, key, expected, desired):
        return bytes(self.store.compare_set(key, expected, desired))

    def delete(self, key):
        return self.store.delete_key(key)

    def count(self):
        return self.store.num_keys() - self.hidden

    def append(self, key, value):
        self.store.append(key, value)
        self.arrive()

    def multi_set(self, keys, values):
        self.store.multi_set(keys, values)
        self.arrive()

    def multi_get(self, keys):
        return [*map(bytes, self.store.multi_get(keys))]

    def extended(self):
        return hasattr(self.store, 'has_extended_api') and self.store.has_extended_api()

    def close(self):
        self.store = None


# ---- Cases: each has a fresh store, of which a and b are users -----------------------------------

def case_values(a, b):
    for key, value in (('k', b'value'), ('k', b'second'), ('empty', b''), ('', b'no name'),
                       ('zeros', bytes(range(256)) * 3), ('a/b "c" \u00e9', b'\n\r\0')):
        if b'\0' in value and isinstance(a, Torch) and not a.extended():
            continue  # torch 1.13 takes strings only
        a.set(key, value)
        assert b.get(key) == value, (key, b.get(key))
        assert a.get(key) == value, (key, a.get(key))


def case_large(a, b):
    for n in (100_000, MIB + 1, 8 * MIB):
        value = b'0123456789abcdef' * (n // 16) + b'x' * (n % 16)
        a.set('large', value)
        got = b.get('large', LIMIT_S)
        assert got == value, (n, len(got))


def case_too_large(a, b):
    """Ours and torch's libuv server take at most 8 MiB over TCP; torch's other servers have no such
    limit."""
    value = b'0123456789' * MIB
    if isinstance(a, Torch) and not (a.extended() and getattr(a.store, 'libuvBackend', True)):
        a.set('large', value)
        assert b.get('large', LIMIT_S) == value
        return
    try:
        a.set('large', value)
    except (Refused, RuntimeError) as e:
        assert isinstance(a, Torch) or '10485760 bytes' in str(e), e
    else:
        assert isinstance(a, Torch) and 'FileStore' in str(type(a.store)), 'it was taken'
        return
    b.set('small', b'x')  # other users are not affected
    assert b.get('small') == b'x'
    assert not b.check('large')


def case_add(a, b):
    assert a.add('n', 5) == 5
    assert b.add('n', -7) == -2
    assert a.get('n') == b'-2' and b.get('n') == b'-2'
    assert b.add('n', 2**62) == 2**62 - 2
    assert a.add('n', 0) == 2**62 - 2
    b.set('text', b'41')
    assert a.add('text', 1) == 42


def case_wait(a, b):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(b.wait, ['w1', 'w2'], 20)
        a.set('w1', b'')
        time.sleep(0.2)
        assert not waiting.done()
        a.set('w2', b'')
        waiting.result(20)
    a.wait(['w1', 'w2'])


def case_timeout(a, b):
    for _ in range(2):  # and the store still works
        start = time.monotonic()
        try:
            b.wait(['never'], TINY_S)
            raise AssertionError('it is there')
        except Missed:
            assert TINY_S * 0.9 < time.monotonic() - start < 20
        if isinstance(b, Torch) and not b.extended():
            return  # torch 1.13 takes the late answer for that of its next request
        assert b.add('count', 1) > 0
    a.set('never', b'after all')
    assert b.get('never') == b'after all'


def case_compare_set(a, b):
    assert a.compare_set('c', 'x', 'y') == b'x'  # the key is missing
    assert not b.check('c')
    assert a.compare_set('c', '', 'one') == b'one'
    assert b.compare_set('c', 'zwei', 'two') == b'one'
    assert b.compare_set('c', 'one', 'two') == b'two'
    assert a.get('c') == b'two'
    assert a.compare_set('c', '', 'three') == b'two'


def case_compare_set_wakes(a, b):
    """At least ours returns: torch's waiters get an answer only from a libuv server."""
    if isinstance(b, Torch):
        return
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for key in 'first', 'second':
            waiting = pool.submit(b.get, key, 20)
            time.sleep(0.2)
            assert a.compare_set(key, '', 'made') == b'made'
            assert waiting.result(30) == b'made'
            a.set(key, b'again')  # this may wake a client that waits no longer
            assert b.add('n', 1) > 0 and b.get(key) == b'again'


def case_delete_and_count(a, b):
    before = a.count()
    assert before == b.count()
    for i in range(5):
        a.set(f'd{i}', b'x')
    assert a.count() == b.count() == before + 5, (a.count(), b.count(), before)
    assert b.delete('d3')
    assert not a.check('d3') and not b.check('d3')
    assert a.count() == b.count() == before + 4
    if not (isinstance(a, Torch) and 'FileStore' in str(type(a.store))):  # it always returns true
        assert not a.delete('d3')
    a.set('d3', b'again')
    assert b.get('d3') == b'again'


def case_extended(a, b):
    if a.extended() and b.extended():
        a.append('log', b'one')
        b.append('log', b'+two')
        assert a.get('log') == b.get('log') == b'one+two'
    for user in a, b:  # ours has these with every store
        if user.extended() or isinstance(user, Ours):
            user.multi_set(['m1', 'm2', 'm3'], [b'1', b'', b'333'])
            assert user.multi_get(['m3', 'm1', 'm2']) == [b'333', b'1', b'']
            assert b.get('m3') == b'333' and a.get('m2') == b''
            assert user.check('m2') and not user.check('m4')


def case_turns(a, b):
    """A barrier as torch makes them: every user adds, the last one sets, all wait."""
    for i in range(20):
        users = (a, b) if i % 2 else (b, a)
        for n, user in enumerate(users, 1):
            if user.add(f'barrier/{i}', 1) == 2:
                assert n == 2
                user.set(f'barrier/{i}/last', b'1')
        for user in users:
            user.wait([f'barrier/{i}/last'])


CASES = [f for n, f in sorted(globals().items()) if n.startswith('case_')]


# ---- Stores --------------------------------------------------------------------------------------

def clean_environment():
    names = ('RINGCOMM', 'TORCHELASTIC', 'MASTER_', 'PMI', 'OMPI', 'SLURM', 'RANK', 'WORLD_SIZE',
             'LOCAL_')
    return {k: v for k, v in os.environ.items() if not k.startswith(names)}


def torch_tcp(port, serve=False, **more):
    store = dist.TCPStore('127.0.0.1', port, is_master=serve, wait_for_workers=False,
                          timeout=datetime.timedelta(seconds=30), **more)
    return Torch(store)


def torch_plain_server():
    """The server with threads and poll, as before torch 2.4, where torch offers the choice."""
    try:
        return torch_tcp(0, serve=True, use_libuv=False)
    except TypeError:
        return torch_tcp(0, serve=True)


def torch_file(path, users):
    return Torch(dist.FileStore(path, users))


def with_server(server, port, peer, kinds):
    users = [server if kind == 'server' else torch_tcp(port) if kind == 'torch' else
             Ours(peer, f'tcp://127.0.0.1:{port}?server=0') for kind in kinds]
    return users if server in users else users + [server]


def by_torch(peer, folder, kinds):
    server = torch_tcp(0, serve=True)
    port = server.store.port
    return with_server(server, port, peer, kinds)


def by_plain_torch(peer, folder, kinds):
    server = torch_plain_server()
    return with_server(server, server.store.port, peer, kinds)


def by_us(peer, folder, kinds):
    server = Ours(peer, 'tcp://127.0.0.1:0?server=1')
    port = int(server.url().rsplit(':', 1)[1])
    return with_server(server, port, peer, kinds)


def by_file(peer, folder, kinds):
    path = f'{folder}/store'
    return [torch_file(path, 2) if kind == 'torch' else
            Ours(peer, f'file://{path}?world_size=2') for kind in kinds]


SETUPS = [(by_torch, ('server', 'ours')), (by_torch, ('ours', 'server')),
          (by_torch, ('torch', 'ours')), (by_torch, ('ours', 'ours')),
          (by_plain_torch, ('server', 'ours')), (by_plain_torch, ('ours', 'ours')),
          (by_us, ('server', 'torch')), (by_us, ('torch', 'server')), (by_us, ('torch', 'ours')),
          (by_us, ('torch', 'torch')), (by_file, ('torch', 'ours')), (by_file, ('ours', 'torch'))]


def run_case(case, make, kinds, peer):
    """Runs a case; returns whether it passed."""
    users = []
    with tempfile.TemporaryDirectory(prefix='ringcomm-interop-') as folder:
        try:
            users = make(peer, folder, kinds)
            for user in users:  # torch counts internal keys, a different number in each version
                if isinstance(user, Torch):
                    user.hidden = user.store.num_keys()
            case(*users[:2])
            return True
        except Exception:  # pylint: disable=broad-except
            print(f'FAILED {make.__name__} {kinds}: {case.__name__}')
            traceback.print_exc(limit=6, file=sys.stdout)
            return False
        finally:
            for user in users:
                user.close()


def run_cases(peer):
    failed = ran = 0
    for make, kinds in SETUPS:
        for case in CASES:
            ran += 1
            failed += not run_case(case, make, kinds, peer)
    print(f'{ran} cases, {failed} failed', flush=True)
    return failed


# ---- Many at one file ----------------------------------------------------------------------------

WRITERS, ROUNDS = 2, 100  # writers of each kind


def writer(path, me):
    """One of torch's writers, in a process of its own."""
    store = torch_file(path, 2 * WRITERS)
    write(store, f'torch{me}')


def write(store, name):
    for i in range(ROUNDS):
        store.add('together', 1)
        store.set(f'{name}/{i % 10}', f'{name} wrote {i}')
    store.add('ended', 1)
    while store.add('ended', 0) < 2 * WRITERS:
        time.sleep(0.05)
    assert store.get('together') == str(2 * WRITERS * ROUNDS).encode(), store.get('together')
    for other in ('torch', 'ours'):
        for k in range(WRITERS):
            for i in range(10):
                want = f'{other}{k} wrote {ROUNDS - 10 + i}'.encode()
                got = store.get(f'{other}{k}/{i}')
                assert got == want, (got, want)


def many_writers(peer):
    with tempfile.TemporaryDirectory(prefix='ringcomm-interop-') as folder:
        path = f'{folder}/store'
        torchs = [start(__file__, '--writer', path, str(k)) for k in range(WRITERS)]
        ours = [Ours(peer, f'file://{path}?world_size={2 * WRITERS}') for _ in range(WRITERS)]
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
            for done in [pool.submit(write, o, f'ours{k}') for k, o in enumerate(ours)]:
                done.result(LIMIT_S)
        for process in torchs:
            end(process)
        for o in ours:
            o.close()
        print(f'{2 * WRITERS} writers of one file: ok', flush=True)


# ---- Ranks ---------------------------------------------------------------------------------------

def start(*words, program=(sys.executable,), **env):
    return subprocess.Popen([*program, *words], env=dict(clean_environment(), **env),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process, want=''):
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        sys.exit(f'still running after {LIMIT_S} s:\n{output}')
    if process.returncode != 0 or want not in output:
        sys.exit(f'status {process.returncode}, not "{want}":\n{output}')


def gloo_rank():
    """A rank of torch.distributed, set up by the environment as in any training script."""
    dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=30))
    t = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(t)
    assert t.item() == 3, t
    all_of = [torch.zeros(1), torch.zeros(1)]
    dist.all_gather(all_of, torch.tensor([dist.get_rank() + 0.5]))
    assert [x.item() for x in all_of] == [0.5, 1.5], all_of
    dist.barrier()
    dist.destroy_process_group()
    print('gloo: ok')


def gloo_by_us(peer):
    """Two ranks of torch with Gloo, over our store."""
    server = Ours(peer, 'tcp://127.0.0.1:0?server=1')
    port = server.url().rsplit(':', 1)[1]
    ranks = [start(__file__, '--gloo-rank', RANK=str(r), WORLD_SIZE='2', MASTER_ADDR='127.0.0.1',
                   MASTER_PORT=port, TORCHELASTIC_USE_AGENT_STORE='True',
                   TORCHELASTIC_RESTART_COUNT='0', GLOO_SOCKET_IFNAME='lo')
             for r in range(2)]
    for rank in ranks:
        end(rank, 'gloo: ok')
    assert server.count() > 0
    server.close()
    print('gloo by our store: ok', flush=True)


def ranks_by_torch(program):
    """Three ranks of ours over torch's store: as torchrun's agent serves it, where it outlives a
    restart of the ranks, and at a URL."""
    for way in 'agent', 'url', 'plain url':
        server = torch_tcp(0, serve=True) if way != 'plain url' else torch_plain_server()
        port = str(server.store.port)
        env = {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port,
               'TORCHELASTIC_USE_AGENT_STORE': 'True'}
        if 'url' in way:
            env = {'RINGCOMM_URL': f'tcp://127.0.0.1:{port}?server=0'}
        for attempt in '0', '1':
            ranks = [start(program=(program,), RANK=str(r), WORLD_SIZE='3',
                           TORCHELASTIC_RESTART_COUNT=attempt, **env) for r in range(3)]
            for r, rank in enumerate(ranks):
                end(rank, f'rank {r} of 3: ok')
        server.close()
    print('our ranks by torch: ok', flush=True)


# ---- All -----------------------------------------------------------------------------------------

def pythons():
    named = os.environ.get('RINGCOMM_TEST_PYTHONS', shutil.which('python3') or '')
    for python in filter(None, named.split(':')):
        probe = subprocess.run([python, '-c', 'import torch.distributed as d; d.TCPStore'],
                               check=False, capture_output=True)
        if probe.returncode == 0:
            yield python


def main():
    peer, ranks = map(os.path.abspath, sys.argv[1:3])
    found = [*pythons()]
    if not found:
        print('skipped: no Python with torch (RINGCOMM_TEST_PYTHONS names none that has it)')
        sys.exit(77)
    for python in found:
        if subprocess.run([python, __file__, '--all', peer, ranks], check=False).returncode != 0:
            sys.exit(1)


def all_with_torch(peer, ranks):
    print(f'torch {torch.__version__}', flush=True)
    failed = run_cases(peer)
    many_writers(peer)
    gloo_by_us(peer)
    ranks_by_torch(ranks)
    sys.exit(failed > 0)


INSIDE = {'--all': all_with_torch, '--gloo-rank': gloo_rank, '--writer': writer}

if __name__ == '__main__':
    if sys.argv[1] in INSIDE:
        import torch
        import torch.distributed as dist
        INSIDE[sys.argv[1]](*sys.argv[2:])
    else:
        main()
