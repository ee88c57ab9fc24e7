#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""reachability_test.py CASE PROGRAM: firewalls that let connections through in one direction only
or forget idle ones, hosts without IPv6, hosts without a usable address.

PROGRAM is rank.c. Exit status 77, with a reason, where network namespaces cannot be created.
"""
import os
import re
import sys
import tempfile
import time

import hosts_test
import net
from hosts_test import STORE, all_good, check, start, value_of, wait_ready

TCP = {'RINGCOMM_TRANSPORT': 'tcp'}


# ---- Without IPv6 -------------------------------------------------------------------------------

def switch_ipv6_off(hosts):
    for host in hosts:
        host.call('sysctl', '-q', 'net.ipv6.conf.all.disable_ipv6=1')


def meet_everywhere(hosts, more):
    """With every kind of URL where rank 0 serves at all addresses and reaches its own store."""
    with tempfile.TemporaryDirectory(prefix='reach-test-') as folder:
        for i, url in enumerate(('tcp://0.0.0.0', 'tcp://[::]', 'tcp://')):
            print(f'rank 0 serves at {url}', flush=True)
            job = net.Job()
            for rank, host in enumerate(hosts):
                at = f'{"tcp://10.77.0.1" if rank else url}:{STORE + i}?server={int(rank == 0)}'
                job.start(host, [hosts_test.program, 'work'],
                          hosts_test.environment(rank, len(hosts), at, host.name, more))
            all_good(job)
        hosts[0].set_hosts_file(folder, '127.0.0.1 localhost\n::1 localhost\n127.0.1.1 h0\n')
        hosts[1].set_hosts_file(folder, '127.0.0.1 localhost\n10.77.0.1 h0\n')
        all_good(start(hosts, ['work'], url='env://', each=1,
                       more=dict(more, MASTER_ADDR='h0', MASTER_PORT=str(STORE + 3))))
        print('by a unique id', flush=True)
        all_good(start(hosts, ['work'], each=1, more=dict(more, RANK_ID_FILE=f'{folder}/id')))
        all_good(start(hosts[:1], ['work'], url=f'tcp://localhost:{STORE + 4}',
                       more=dict(more, **TCP)))
        for host in hosts:
            host.call('umount', '/etc/hosts')


def case_ipv6_off():
    hosts = net.star(2)
    switch_ipv6_off(hosts)
    meet_everywhere(hosts, {'RINGCOMM_TIMEOUT': '20'})


def case_no_ipv6():
    """A kernel without IPv6; and loopback without ::1."""
    hosts = net.star(2)
    meet_everywhere(hosts, {'RINGCOMM_TIMEOUT': '20', 'RANK_NO_IPV6': '1'})
    for host in hosts:
        host.call('ip', 'address', 'del', '::1/128', 'dev', 'lo')
        host.call('sysctl', '-q', 'net.ipv6.bindv6only=1')
    meet_everywhere(hosts, {'RINGCOMM_TIMEOUT': '20'})


# ---- Connections in one direction ---------------------------------------------------------------

def one_way(beginner, *lates, more=None):
    """Connections can start at one host only. Each rank is once the first that needs a link."""
    hosts = net.star(2)
    hosts[1 - beginner].refuse_to_begin('eth0')
    url = f'tcp://10.77.0.{2 - beginner}:{STORE}'
    for late in lates:
        job = net.Job()
        for rank, host in enumerate(hosts):
            env = hosts_test.environment(rank, 2, f'{url}?server={int(rank != beginner)}', host.name,
                                         dict(more or {}, RANK_LATE=late))
            job.start(host, [hosts_test.program, 'work'], env)
        all_good(job)


def case_one_way_up():
    """Rank 1 reaches rank 0."""
    one_way(1, '0:0', '0:1.5', '1:0.3', '1:3')


def case_one_way_down():
    """Rank 0 reaches rank 1, which serves the store."""
    one_way(0, '0:0', '0:3', '1:1.5')


def case_one_way_secret():
    """With a secret, and several transports allowed."""
    one_way(1, '0:0', '1:1.5', more={'RINGCOMM_SECRET': 'secret', 'RINGCOMM_TRANSPORT': 'tcp'})


def case_one_way_many():
    """Rank pairs between three hosts: host 1 can connect to both others, host 2 to host 0."""
    hosts = net.star(3)
    hosts[0].refuse_to_begin('eth0')
    all_good(start(hosts, ['work']))


# ---- Idle connections ---------------------------------------------------------------------------

def connections(host):
    """Lines of ss about established TCP connections, including loopback's."""
    return host.call('ss', '-tnoH', 'state', 'established').splitlines()


def keepalives(hosts):
    """Returns how many connections wait to send a keepalive; every connection has a timer, none too
    late."""
    seen = 0
    for host in hosts:
        for line in connections(host):
            print(f'{host.name}: {line}')
            timer = re.search(r'timer:\(keepalive,(?:(\d+)min)?([\d.]*)(?:sec|ms)?,', line)
            check(timer or 'timer:(on' in line, f'a connection without keepalive: {line}')
            check(not timer or int(timer.group(1) or 0) < 4, f'keepalive is late: {line}')
            seen += timer is not None
    return seen


def case_keepalive():
    """The kernel sends something on every connection within 240 s, whichever side made it."""
    hosts = net.star(2)
    job = start(hosts, ['idle', 3], more=TCP)
    wait_ready(job)
    # A packet without acknowledgement has another timer for a moment.
    until = time.monotonic() + 20
    seen = keepalives(hosts)
    while seen < 20 and time.monotonic() < until:
        time.sleep(0.3)
        seen = keepalives(hosts)
    check(seen >= 20, f'only {seen} connections')
    all_good(job)


def leave(prepare, each=1):
    """A run without faults, then `prepare` while all ranks are idle, then all leave."""
    hosts = net.star(2)
    with tempfile.TemporaryDirectory(prefix='reach-test-') as folder:
        job = start(hosts, ['work'], each=each, more={'RANK_LEAVE_AT': f'{folder}/leave'})
        for rank in range(len(job.processes)):
            job.wait_line(rank, 'done')
        prepare(hosts)
        with open(f'{folder}/leave', 'w', encoding='utf-8'):
            pass
        for text, _ in all_good(job):
            check(value_of(text, 'destroy', 'status') == 'RCM_OK', 'rcm_destroy failed')


def reset(host):
    found = host.call('ss', '-K', '-tnH', 'dport', '=', str(STORE))
    print(f'{host.name}: {found}', end='')
    check(str(STORE) in found, 'ss -K closed nothing: a kernel without INET_DIAG_DESTROY?')


def case_store_reset():
    """The connections to the store are reset, of ranks on one host, or of all ranks."""
    leave(lambda hosts: reset(hosts[1]))


def case_store_reset_all():
    """Including rank 0's own connection."""
    leave(lambda hosts: [reset(host) for host in hosts], each=2)


def case_store_cut():
    """They are reset, and new ones are blocked: the farewell on the link counts."""
    def cut(hosts):
        hosts[1].drop_port('eth0', STORE)
        reset(hosts[1])
    leave(cut)


# ---- Addresses ----------------------------------------------------------------------------------

def init_errors(hosts, words='', **options):
    """Returns the error texts of rcm_init, which fails on every rank."""
    job = start(hosts, ['work'], each=1, **options)
    texts = []
    for rank, (text, _) in enumerate(job.finish()):
        found = re.search(r'^error when=init .*status=(\S+) .*text=(.*)$', text, re.M)
        check(found, f'rank {rank} passed rcm_init')
        check(found.group(1) == f'RCM_ERR_{words}', f'rank {rank}: {found.group(1)}')
        texts.append(found.group(2))
    return texts


def refused_by_all(hosts, pattern, **options):
    with tempfile.TemporaryDirectory(prefix='reach-test-') as folder:
        for rank, found in enumerate(init_errors(hosts, 'UNSUPPORTED', url=f'file://{folder}/store',
                                                **options)):
            check(re.search(f'ranks 0 and 1, which are on different hosts.*{pattern}', found),
                  f'rank {rank} does not report what is missing: {found}')


def case_no_address():
    """Host 1 has a link-local address only, then none; then no host has one."""
    lan = net.bridge('lan')
    hosts = [net.Host('h0'), net.Host('h1')]
    hosts[0].plug('eth0', lan, '10.77.0.1/24')
    hosts[1].plug('eth0', lan)
    time.sleep(2)  # until the kernel has checked its link-local address
    nothing = 'on rank 1 there is no address that other hosts can reach: '
    refused_by_all(hosts, nothing + 'its interfaces, such as eth0, have no address except '
                   'link-local ones')
    hosts[1].call('ip', 'address', 'flush', 'dev', 'eth0')
    refused_by_all(hosts, nothing + 'its interfaces, such as eth0, have no address')
    hosts[1].call('ip', 'link', 'set', 'eth0', 'down')
    hosts[0].call('ip', 'link', 'set', 'eth0', 'down')
    refused_by_all(hosts, nothing + 'no network interface except loopback is up')
    refused_by_all(hosts, nothing, more=TCP)
    # Two ranks of one host need no address.
    all_good(start(hosts[:1], ['work'], url=f'tcp://127.0.0.1:{STORE}', more=TCP))


def case_no_common_family():
    lan = net.bridge('lan')
    hosts = [net.Host('h0'), net.Host('h1')]
    hosts[0].plug('eth0', lan, '10.77.0.1/24')
    hosts[1].plug('eth0', lan, 'fd77::2/64')
    refused_by_all(hosts, 'rank 0 has addresses of IPv4 only, rank 1 of IPv6 only')


def case_iface_lacks():
    """Names, addresses and networks, in lists; and the reason for an invalid one."""
    hosts = net.star(2)
    for i, host in enumerate(hosts):
        host.plug('eth1', net.bridge(f'own{i}'))
    time.sleep(2)
    hosts[1].call('ip', 'link', 'add', 'eth2', 'type', 'veth', 'peer', 'name', 'eth3')
    for value, why in (('eth1', 'is up but has only IPv6 link-local addresses'),
                       ('eth2', 'this interface is down'),
                       ('eth7', 'no interface has this name, address or network'),
                       ('10.99.0.0/16', 'no interface has this name, address or network'),
                       ('fe80::1%eth0', 'no interface has this name, address or network')):
        found = init_errors(hosts, 'CONFIG', more={'RINGCOMM_TIMEOUT': '10'},
                           more_of={1: {'RINGCOMM_IFACE': value}})[1]
        check(f"RINGCOMM_IFACE is '{value}', but" in found and why in found, f'not found: {found}')
    for value in ('10.77.0.0/24', 'eth7,eth0', 'eth1,10.77.0.0/16'):
        all_good(start(hosts, ['work'], each=1, more={'RINGCOMM_IFACE': value}))


def case_many_addresses():
    """The usable address comes after 80 others."""
    hosts = [net.Host('h0'), net.Host('h1')]
    lan = net.bridge('lan')
    for i, host in enumerate(hosts):
        host.call('ip', 'link', 'add', 'aa0', 'type', 'veth', 'peer', 'name', 'aa1')
        for k in range(80):
            host.call('ip', 'address', 'add', f'10.{100 + i}.{k}.1/24', 'dev', 'aa0')
        host.call('ip', 'link', 'set', 'aa1', 'up')
        host.call('ip', 'link', 'set', 'aa0', 'up')
        host.plug('eth0', lan, f'10.77.0.{i + 1}/24')
    all_good(start(hosts, ['work'], each=1, more=TCP))
    with tempfile.TemporaryDirectory(prefix='reach-test-') as folder:
        for host in hosts:
            host.call('ip', 'route', 'add', 'default', 'via', '10.77.0.99')
        all_good(start(hosts, ['work'], each=1, more={'RANK_ID_FILE': f'{folder}/id'}))
        all_good(start(hosts, ['work'], each=1, url=f'file://{folder}/store'))


def case_names():
    """An error about the store contains its name and its address."""
    hosts = net.star(2)
    with tempfile.TemporaryDirectory(prefix='reach-test-') as folder:
        hosts[1].set_hosts_file(folder, '127.0.0.1 localhost\n10.77.0.1 node7\n')
        job = net.Job()
        job.start(hosts[1], [hosts_test.program, 'work'], hosts_test.environment(
            1, 2, 'env://', None, {'RINGCOMM_TIMEOUT': '1', 'MASTER_ADDR': 'node7',
                                   'MASTER_PORT': str(STORE)}))
        text = job.finish()[0][0]
        check(f'store at node7:{STORE} (10.77.0.1)' in text, 'not by name and address')


# ---- Loopback -----------------------------------------------------------------------------------

def listeners(host):
    """Returns the listening addresses of TCP, without ports."""
    lines = host.call('ss', '-ltnH').splitlines()
    return sorted(line.split()[3].rsplit(':', 1)[0] for line in lines)


RELAY = """
import socket, sys, threading
def unix(path):
    s = socket.socket(socket.AF_UNIX); s.connect(path); return s
def pump(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError: pass
path, port, outer = sys.argv[1], int(sys.argv[2]), sys.argv[3] == 'outer'
if outer:
    listener = socket.create_server(('127.0.0.1', port))
else:
    listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
while True:
    a, _ = listener.accept()
    try: b = unix(path) if outer else socket.create_connection(('127.0.0.1', port))
    except OSError: a.close(); continue
    for one, other in ((a, b), (b, a)):
        threading.Thread(target=pump, args=(one, other), daemon=True).start()
"""


def case_loopback():
    """A store at loopback: ranks of one host listen at loopback only, unless a setting changes
    that. Through a tunnel it serves other hosts, too."""
    hosts = net.star(2)
    for more in ({}, TCP, {'RINGCOMM_URL': f'tcp://localhost:{STORE}'}):
        job = start(hosts[:1], ['idle', 1], url=f'tcp://127.0.0.1:{STORE}', more=more)
        wait_ready(job)
        at = listeners(hosts[0])
        print(f'listeners: {at}')
        check(len(at) >= 3 and set(at) <= {'127.0.0.1', '[::1]'}, 'not at loopback only')
        all_good(job)
    job = start(hosts[:1], ['idle', 1], url=f'tcp://127.0.0.1:{STORE}',
                more={'RINGCOMM_IFACE': 'eth0'})
    wait_ready(job)
    check('10.77.0.1' in listeners(hosts[0]), 'RINGCOMM_IFACE is not obeyed')
    all_good(job)
    with tempfile.TemporaryDirectory(prefix='reach-test-') as folder:
        relays = net.Job()
        for host, side in ((hosts[0], 'inner'), (hosts[1], 'outer')):
            relays.start(host, [sys.executable, '-c', RELAY, f'{folder}/relay', str(STORE), side],
                         dict(os.environ))
        while not os.path.exists(f'{folder}/relay'):
            time.sleep(0.01)
        all_good(start(hosts, ['work'], url=f'tcp://127.0.0.1:{STORE}'))
        for relay in relays.processes:
            relay.kill()


cases = {name[5:].replace('_', '-'): function for name, function in sorted(globals().items())
         if name.startswith('case_')}

if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] not in cases:
        sys.exit(f"usage: reachability_test.py CASE PROGRAM\ncases: {' '.join(cases)}")
    hosts_test.program = os.path.abspath(sys.argv[2])
    net.enter()
    net.limit(150)
    cases[sys.argv[1]]()
