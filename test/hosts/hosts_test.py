#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hosts_test.py CASE PROGRAM: ranks on several hosts, over networks with faults.

PROGRAM is rank.c. Exit status 77, with a reason, where network namespaces cannot be created.
Measured times are printed; the asserted limits leave room for a busy machine. After a cut the
kernel chooses the time of its next transmission, for which there is no guarantee.
"""
import os
import re
import signal
import sys
import tempfile
import time

import net

LATE_S = 6  # delay allowed on a busy machine
STORE = 29500


def environment(rank, size, url, host_id, more):
    """Without the variables of a launcher that may run the tests."""
    other = re.compile(r'(RINGCOMM|OMPI|PMI|PMIX|SLURM|TORCHELASTIC|MASTER|MPI)_|'
                       r'(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$')
    env = {k: v for k, v in os.environ.items() if not other.match(k)}
    env.update(RINGCOMM_RANK=str(rank), RINGCOMM_WORLD_SIZE=str(size), RINGCOMM_URL=url,
               RINGCOMM_TIMEOUT='60', RINGCOMM_JOB_ID='hosts-test')
    if host_id:
        env['RINGCOMM_HOST_ID'] = host_id
    env.update(more)
    return env


def start(hosts, words, url=None, host_ids=True, each=2, more=None, more_of=None):
    """Starts ranks in blocks of `each` per host. more: environment of all, more_of: {host number:
    ...}."""
    job = net.Job()
    size = each * len(hosts)
    for rank in range(size):
        at = rank // each
        host = hosts[at]
        env = dict(more or {}, **(more_of or {}).get(at, {}))
        job.start(host, [program, *map(str, words)],
                  environment(rank, size, url or f'tcp://10.77.0.1:{STORE}',
                              host.name if host_ids else None, env))
    return job


def check(holds, sentence):
    if not holds:
        sys.exit(f'FAIL {sentence}')


def all_good(job):
    outputs = job.finish()
    for rank, (text, status) in enumerate(outputs):
        check(status == 0, f'rank {rank} ended with status {status}')
        check('wrong:' not in text, f'rank {rank} got wrong data')
    return outputs


def value_of(text, line, key):
    found = re.search(rf'^{line} .*?\b{key}=(\S+)', text, re.M)
    check(found, f'no line "{line}" with {key}=')
    return found.group(1)


def wait_ready(job):
    for rank in range(len(job.processes)):
        job.wait_line(rank, 'ready')


# ---- No faults ----------------------------------------------------------------------------------

def check_transports(outputs, each):
    for rank, (text, _) in enumerate(outputs):
        for peer in range(len(outputs)):
            if peer == rank:
                continue
            want = 'shm' if peer // each == rank // each else 'tcp'
            got = re.search(rf'^transport peer={peer} name=(\w*)$', text, re.M)
            check(got and got.group(1) == want,
                  f'ranks {rank} and {peer}: {got and got.group(1)}, not {want}')


def case_two():
    check_transports(all_good(start(net.star(2), ['work'])), 2)


def case_three():
    """Hosts that differ in their network namespace only: the kernel is the same."""
    check_transports(all_good(start(net.star(3), ['work'], host_ids=False)), 2)


# ---- Identities and clocks ----------------------------------------------------------------------

def cloned(hosts, each, **more):
    """All hosts have one identity, like cloned machines."""
    return start(hosts, ['work'], each=each, host_ids=False,
                 more={'RINGCOMM_HOST_ID': 'cloned', 'RINGCOMM_TIMEOUT': '30', **more})


def case_cloned():
    outputs = all_good(cloned(net.star(2), 3))
    check_transports(outputs, 3)
    warnings = [text for text, _ in outputs if 'planned as ranks of different hosts' in text]
    check(len(warnings) == 1 and 'ranks of host id cloned share memory only in the sets 0, 1, 2 | 3, 4, 5'
          in warnings[0] and 'RINGCOMM_HOST_ID' in warnings[0], f'one warning, not {warnings}')


def case_cloned_singles():
    check_transports(all_good(cloned(net.star(3), 1)), 1)


def case_cloned_shm():
    """With shared memory alone every rank gets the same error text."""
    texts = set()
    for rank, (text, status) in enumerate(cloned(net.star(2), 2, RINGCOMM_TRANSPORT='shm').finish()):
        check(status == 1 and 'status=RCM_ERR_UNSUPPORTED' in text, f'rank {rank}: {text}')
        texts.add(re.search(r'text=(.*)', text).group(1))
    check(len(texts) == 1 and re.search('serves ranks 0 and 2; rank 0 .user 0. shares no memory with '
                                        'rank 2.*RINGCOMM_HOST_ID', texts.pop()), f'{texts}')


def shifted(words, offsets, late, more):
    """Ranks on one host whose clocks are ahead by so many seconds; the last one starts late."""
    host = net.star(1)[0]
    job = net.Job()
    for rank, offset in enumerate(offsets):
        wait = f'sleep {late}; ' if rank == len(offsets) - 1 else ''
        ahead = [f'--monotonic={offset}', f'--boottime={2 * offset}'] if offset else []
        job.start(host, ['unshare', *(['--time', '--fork', '--kill-child', *ahead] if ahead else ['-i']),
                         'sh', '-c', f'{wait}exec "$0" "$@"', program, *words],
                  environment(rank, len(offsets), 'tcp://10.77.0.1:29500', None, more))
    return job


def case_clocks():
    """Time namespaces: the clocks of ranks differ."""
    check_transports(all_good(shifted(['work'], [0, 100000, 3000], 3, {})), 3)


def case_clocks_report():
    """Times on status pages are relative to the writer's clock."""
    job = shifted(['loop', '60', '1000'], [100000, 0, 0], 0,
                  {'RINGCOMM_WARN_AFTER': '2', 'RINGCOMM_TIMEOUT': '5'})
    wait_ready(job)
    os.kill(job.processes[2].pid, signal.SIGSTOP)
    text = ''.join(job.processes[rank].stdout.read() for rank in range(2))
    os.kill(job.processes[2].pid, signal.SIGKILL)
    print(text)
    waits = re.findall(r'warning:   1 .* ([0-9.]+) (us|ms|s|min|h)$', text, re.M)
    check(waits, 'no report of what rank 1 waits for')
    check(all(unit == 's' and 1 < float(wait) < 60 for wait, unit in waits), f'waits of {waits}')


def case_ipv6():
    hosts = net.star(2, ipv4=False, ipv6=True)
    check_transports(all_good(start(hosts, ['work'], url=f'tcp://[fd77::1]:{STORE}')), 2)


def case_names():
    """A host's own name resolves to 127.0.1.1 there, as Debian writes it into /etc/hosts."""
    hosts = net.star(2)
    with tempfile.TemporaryDirectory(prefix='hosts-test-') as folder:
        hosts[0].set_hosts_file(folder, '127.0.0.1 localhost\n127.0.1.1 h0\n10.77.0.2 h1\n')
        hosts[1].set_hosts_file(folder, '127.0.0.1 localhost\n127.0.1.1 h1\n10.77.0.1 h0\n')
        all_good(start(hosts, ['work'], url=f'tcp://h0:{STORE}'))
        all_good(start(hosts, ['work'], url='env://',
                       more={'MASTER_ADDR': 'h0', 'MASTER_PORT': str(STORE + 1)}))


def two_networks(apart):
    """eth0 does not reach the other host, eth1 does. apart: eth0's networks have different numbers;
    else they have the same one, so that only a connection attempt shows it."""
    hosts = [net.Host('h0'), net.Host('h1')]
    lan = net.bridge('lan')
    for i, host in enumerate(hosts):
        host.plug('eth0', net.bridge(f'own{i}'), f'10.{i if apart else 0}.9.{i + 1}/24')
        host.plug('eth1', lan, f'10.77.0.{i + 1}/24')
    return hosts


def case_two_networks():
    all_good(start(two_networks(apart=True), ['work']))


def case_same_networks():
    all_good(start(two_networks(apart=False), ['work']))


def case_same_address():
    """A container bridge: each host has one, with the same address."""
    hosts = net.star(2)
    for i, host in enumerate(hosts):
        host.plug('br0', net.bridge(f'own{i}'), '10.17.0.1/24')
        host.call('ip', 'link', 'set', 'eth0', 'down')
        host.call('ip', 'link', 'set', 'eth0', 'name', 'eth1')  # after br0 in the list
        host.call('ip', 'link', 'set', 'eth1', 'up')
    all_good(start(hosts, ['work']))


def received_bytes(host, iface):
    return int(host.call('cat', f'/sys/class/net/{iface}/statistics/rx_bytes'))


def case_iface():
    """The store is reached over eth0, data over the interface of the setting."""
    hosts = net.star(2)
    fast = net.bridge('fast')
    for i, host in enumerate(hosts):
        host.plug('eth1', fast, f'10.78.0.{i + 1}/24')
        host.call('mount', '-t', 'sysfs', 'sysfs', '/sys')
    all_good(start(hosts, ['work'], more={'RINGCOMM_IFACE': 'eth1'}))
    slow_bytes, fast_bytes = (received_bytes(hosts[1], name) for name in ('eth0', 'eth1'))
    print(f'eth0 received {slow_bytes} bytes, eth1 {fast_bytes}')
    check(fast_bytes > 3e6 and slow_bytes < 1e6, 'data used another interface')


def listening_ports(host):
    """Returns the ports of listening TCP sockets of both families."""
    with open(f'/proc/{host.keeper.pid}/net/tcp', encoding='ascii') as v4, \
            open(f'/proc/{host.keeper.pid}/net/tcp6', encoding='ascii') as v6:
        rows = [line.split() for line in [*v4.readlines()[1:], *v6.readlines()[1:]]]
    return sorted(int(row[1].rsplit(':', 1)[1], 16) for row in rows if row[3] == '0A')


def case_ports():
    hosts = net.star(2)
    job = start(hosts, ['idle', 1], more={'RINGCOMM_PORTS': '21000-21002'})
    wait_ready(job)
    for host, others in ((hosts[0], [STORE]), (hosts[1], [])):
        ports = [p for p in listening_ports(host) if p not in others]
        print(f'{host.name} listens on {ports}')
        check(len(ports) == 2 and all(21000 <= p <= 21002 for p in ports),
              f'{host.name} listens elsewhere')
    all_good(job)
    # One port is not enough for two ranks.
    job = start(hosts, ['work'], url=f'tcp://10.77.0.1:{STORE + 1}', more_of={
        1: {'RINGCOMM_PORTS': '21000'}}, more={'RINGCOMM_TIMEOUT': '4'})
    texts = [text for text, _ in job.finish()]
    check(re.search('no port of RINGCOMM_PORTS .21000. is free', texts[2] + texts[3]),
          'no rank reports that no port is free')
    check(all('error when=init' in text for text in texts), 'a rank joined without the others')


def case_slow():
    """20 Mbit/s."""
    hosts = net.star(2)
    for host in hosts:
        host.limit_rate('eth0', '20mbit')
    all_good(start(hosts, ['work']))


# ---- Cuts ---------------------------------------------------------------------------------------

def survive(hosts, cut, mend, seconds, more=None):
    """all_reduces continue while the network is cut for so long."""
    job = start(hosts, ['loop', seconds + 1.5, 500000], more=more)
    wait_ready(job)
    time.sleep(0.3)
    cut_at = time.monotonic()
    cut()
    time.sleep(seconds)
    mend()
    mended = time.monotonic()
    outputs = all_good(job)
    late = [float(value_of(text, 'loop', 'to')) - mended for text, _ in outputs]
    longest = [float(value_of(text, 'loop', 'longest')) for text, _ in outputs]
    print(f'cut for {mended - cut_at:.2f} s; the operation went on {max(late):.2f} s after it')
    check(min(longest) > 0.8 * seconds, 'the cut had no effect')


def case_cut_short():
    hosts = net.star(2)
    survive(hosts, lambda: hosts[1].cut('eth0'), lambda: hosts[1].mend('eth0'), 3)


def case_carrier():
    hosts = net.star(2)
    survive(hosts, lambda: hosts[1].unplug('eth0'), lambda: hosts[1].replug('eth0'), 2)


def case_down_up():
    """The interface itself goes down and up again."""
    hosts = net.star(2)
    survive(hosts, lambda: hosts[1].call('ip', 'link', 'set', 'eth0', 'down'),
            lambda: hosts[1].call('ip', 'link', 'set', 'eth0', 'up'), 2)


def case_cut_nearly():
    """Almost as long as RINGCOMM_PEER_TIMEOUT."""
    hosts = net.star(2)
    survive(hosts, lambda: hosts[1].cut('eth0'), lambda: hosts[1].mend('eth0'), 7.5,
            more={'RINGCOMM_PEER_TIMEOUT': '10'})


def case_cut_init():
    """The store cannot be reached at first."""
    hosts = net.star(2)
    hosts[1].cut('eth0')
    job = start(hosts, ['work'])
    time.sleep(2)
    hosts[1].mend('eth0')
    outputs = all_good(job)
    print('took', [value_of(text, 'init', 'seconds') for text, _ in outputs])


def check_lost(outputs, cut_at, timeout, each=2, off=1, ranks=None):
    """Every rank reports in time that a rank beyond the cut is lost, with the reason. off: the host
    that was cut off from the others."""
    for rank, (text, _) in enumerate(outputs):
        if ranks and rank not in ranks:
            continue
        check(value_of(text, 'error', 'status') == 'RCM_ERR_PEER', f'rank {rank}: another status')
        origin = int(value_of(text, 'error', 'origin'))
        check((origin // each == off) != (rank // each == off), f'rank {rank} names rank {origin}')
        error = re.search(r'^error .*text=(.*)$', text, re.M).group(1)
        check(re.search(rf'rank {origin} \(pid \d+ on h{origin // each}\): no sign of life from its '
                        rf'host for [\d.]+ s .RINGCOMM_PEER_TIMEOUT is {timeout} s', error),
              f'rank {rank} has another error: {error}')
        after = float(value_of(text, 'error', 'at')) - cut_at
        print(f'rank {rank} got the error after {after:.2f} s')
        check(timeout / 2 < after < timeout + LATE_S, f'rank {rank} got the error after {after:.2f} s')
        left = float(value_of(text, 'destroy', 'seconds'))
        check(left < LATE_S, f'rank {rank} took {left} s to leave')


def lose(words, timeout=3, each=2):
    hosts = net.star(2)
    job = start(hosts, words, each=each, more={'RINGCOMM_PEER_TIMEOUT': str(timeout)})
    wait_ready(job)
    time.sleep(0.3)
    cut_at = time.monotonic()
    hosts[1].cut('eth0')
    check_lost(job.finish(), cut_at, timeout, each)


def case_cut_long():
    lose(['loop', 30, 500000])


def case_cut_idle():
    """No operation is active."""
    lose(['idle', 30])


def case_cut_await():
    """One rank waits for a message; its link carries no data."""
    lose(['await', 2, 1000])


def case_cut_third():
    """One host of three is cut off: the other two agree that it is lost."""
    hosts = net.star(3)
    job = start(hosts, ['idle', 30], more={'RINGCOMM_PEER_TIMEOUT': '3'})
    wait_ready(job)
    time.sleep(0.3)
    cut_at = time.monotonic()
    hosts[2].cut('eth0')
    check_lost(job.finish(), cut_at, 3, off=2)


def case_cut_stalled():
    """A rank is stopped, so that windows are closed and no data move; then its host is cut off."""
    hosts = net.star(2)
    job = start(hosts, ['loop', 30, 2000000], more={'RINGCOMM_PEER_TIMEOUT': '3'})
    wait_ready(job)
    os.kill(job.processes[2].pid, signal.SIGSTOP)
    time.sleep(1.5)
    cut_at = time.monotonic()
    hosts[1].cut('eth0')
    job.processes[0].wait()
    job.processes[1].wait()
    os.kill(job.processes[2].pid, signal.SIGCONT)
    check_lost(job.finish(), cut_at, 3, ranks=[0, 1])


def case_cut_quick():
    lose(['idle', 30], timeout=1, each=1)


def case_cut_default():
    lose(['idle', 60], timeout=15, each=1)


MTU = r'if short ones pass, the MTU of the path is smaller than that of the interfaces'


def two_switches(**families):
    """Two hosts, and a cable between their bridges."""
    hosts = net.star(2, **families)
    net.call('ip', 'link', 'add', 'trunk0', 'type', 'veth', 'peer', 'name', 'trunk1')
    net.call('ip', 'link', 'set', hosts[1].ports['eth0'][0], 'master', net.bridge('far'))
    for port, bridge in (('trunk0', 'lan'), ('trunk1', 'far')):
        net.call('ip', 'link', 'set', port, 'master', bridge, 'up')
    return hosts


def black_hole(hosts, probing=0):
    """Packets of more than 1280 bytes are lost between the bridges, without an ICMP message.
    Without probing, kernels give a connection up after 4 attempts here."""
    retries = 15 if probing else 4
    for host in hosts:
        host.call('ip', 'link', 'set', 'eth0', 'gso_max_segs', '1')  # longer ones pass whole
        host.call('sysctl', '-qw', f'net.ipv4.tcp_retries2={retries}',
                  f'net.ipv4.tcp_mtu_probing={probing}')
    for port in ('trunk0', 'trunk1'):
        net.call('ip', 'link', 'set', port, 'mtu', '1280')


def lose_long(hosts, **more):
    job = start(hosts, ['loop', 60, 100000], each=1, **more)
    wait_ready(job)
    black_hole(hosts)
    for rank, (text, _) in enumerate(job.finish()):
        check(value_of(text, 'error', 'status') == 'RCM_ERR_PEER', f'rank {rank}: another status')
        check(re.search(r'^error .*short messages pass, long ones do not: .* rank \d failed: .*'
                        rf'packets of 1\d\d\d bytes are not acknowledged; {MTU}', text, re.M),
              f'rank {rank} has another error')


def case_mtu():
    lose_long(two_switches())


def case_mtu_ipv6():
    lose_long(two_switches(ipv4=False, ipv6=True), url=f'tcp://[fd77::1]:{STORE}')


def case_mtu_store():
    """From the start: the store's answers are lost."""
    hosts = two_switches()
    black_hole(hosts)
    outputs = start(hosts, ['work'], each=1, more={'RINGCOMM_TIMEOUT': '4'}).finish()
    check(re.search(rf'^error when=init .*store at .*(not its beginning|not acknowledged); {MTU}', outputs[1][0],
                    re.M), 'rank 1 has another error')


def case_mtu_probing():
    """The advice in the error works."""
    hosts = two_switches()
    black_hole(hosts, probing=1)
    all_good(start(hosts, ['work'], each=1))


# ---- No rank is lost ----------------------------------------------------------------------------

def case_idle():
    """Heartbeats use almost no CPU time."""
    outputs = all_good(start(net.star(2), ['idle', 6], more={'RINGCOMM_PEER_TIMEOUT': '5'}))
    for rank, (text, _) in enumerate(outputs):
        cpu, wakes = float(value_of(text, 'idle', 'cpu')), int(value_of(text, 'idle', 'wakes'))
        print(f'rank {rank}: {100 * cpu / 6:.2f} % of a CPU, woken {wakes / 6:.1f} times a second')
        check(cpu < (0.06 if not sanitized() else 0.6), f'rank {rank} used {cpu} s of CPU')
        check(wakes < 60, f'rank {rank} was woken {wakes} times in 6 s')


def sanitized():
    return b'__asan_init' in open(program, 'rb').read() or b'__tsan_init' in open(
        program, 'rb').read()


def program_pids(job, ranks):
    """nsenter becomes the program: same pid."""
    return [job.processes[rank].pid for rank in ranks]


def stop(hosts_words, ranks, seconds, timeout):
    """Stopped processes are waited for, however long they are silent: their hosts answer."""
    job = start(net.star(2), hosts_words, more={'RINGCOMM_PEER_TIMEOUT': str(timeout)})
    wait_ready(job)
    time.sleep(0.3)
    pids = program_pids(job, ranks)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    return all_good(job)


def case_stopped():
    """During data transfers, so that windows fill up."""
    outputs = stop(['loop', 6, 2000000], [2], 4.5, 2)
    longest = float(value_of(outputs[0][0], 'loop', 'longest'))
    check(longest > 4, f'nothing was stopped: {longest} s')


def case_stopped_all():
    """The whole job stands still, as after Ctrl-Z: no rank answers and none probes."""
    stop(['idle', 6], [0, 1, 2, 3], 4.5, 2)


# ---- Wrong settings -----------------------------------------------------------------------------

def plug_apart(hosts):
    """eth1 of each host reaches no other host."""
    for i, host in enumerate(hosts):
        host.plug('eth1', net.bridge(f'own{i}'), f'10.99.{i}.1/24')


def wrong_iface(hosts, timeout=3):
    plug_apart(hosts)
    began = time.monotonic()
    job = start(hosts, ['work', 0.5], more={'RINGCOMM_PEER_TIMEOUT': str(timeout),
                                            'RINGCOMM_IFACE': 'eth1'})
    for rank, (text, _) in enumerate(job.finish()):
        error = re.search(r'^error when=run .*text=(.*)$', text, re.M)
        check(error, f'rank {rank} got no error')
        check(re.search(r'10\.99\.\d\.1:\d+ \(eth1\): .*RINGCOMM_IFACE on h\d must', error.group(1)),
              f'rank {rank} has another error: {error.group(1)}')
        after = float(value_of(text, 'error', 'at')) - began
        print(f'rank {rank} got the error after {after:.2f} s')
        check(after < timeout + LATE_S, f'rank {rank} got the error after {after:.2f} s')


def case_wrong_iface():
    """The others have no route to it."""
    wrong_iface(net.star(2))


def case_wrong_iface_silent():
    """The others have a route, but packets are lost."""
    hosts = net.star(2)
    for host in hosts:
        host.call('ip', 'route', 'add', 'default', 'via', '10.77.0.99')
    wrong_iface(hosts)


def case_wrong_iface_one():
    """On one host only: its ranks cannot be reached, but reach the others."""
    hosts = net.star(2)
    plug_apart(hosts)
    for late in (0, 0.5):
        all_good(start(hosts, ['work', late], more_of={1: {'RINGCOMM_IFACE': 'eth1'}}))


def case_no_iface():
    job = start(net.star(2), ['work'], each=1, more={'RINGCOMM_TIMEOUT': '4'},
                more_of={1: {'RINGCOMM_IFACE': 'eth7'}})
    texts = [text for text, _ in job.finish()]
    check(re.search("text=.*RINGCOMM_IFACE is 'eth7'", texts[1]), 'rank 1 has another error')
    check(re.search("text=rank 1 could not join: RINGCOMM_IFACE is 'eth7'", texts[0]),
          'rank 0 does not report the missing rank and the reason')


cases = {name[5:].replace('_', '-'): function for name, function in sorted(globals().items())
         if name.startswith('case_')}

if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] not in cases:
        sys.exit(f"usage: hosts_test.py CASE PROGRAM\ncases: {' '.join(cases)}")
    program = os.path.abspath(sys.argv[2])
    net.enter()
    net.limit(150)
    cases[sys.argv[1]]()
