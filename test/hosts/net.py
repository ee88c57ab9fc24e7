# SPDX-License-Identifier: BSD-3-Clause
"""Hosts made of network namespaces, connected by bridges: the base of this folder's tests.

Nothing has a name outside: enter() starts the program again in namespaces of its own (processes,
network, mounts, host name), and each host is a process in that world with a network of its own.
When the world's first process ends, in whatever way, the kernel ends all others and removes hosts,
bridges and addresses. So runs cannot collide, and nothing is left behind. Needs root, or a kernel
that lets users create namespaces.
"""
import os
import shutil
import signal
import subprocess
import sys
import time

INSIDE = 'RINGCOMM_TEST_HOSTS_INSIDE'


def skip(sentence):
    print(f'skipped: {sentence}')
    sys.exit(77)


def enter():
    """Returns inside the new namespaces; outside it does not return."""
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    if os.environ.get(INSIDE):
        # The first process of a PID namespace gets only signals with a handler.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit('ended by SIGTERM'))
        return
    for name in ('ip', 'tc', 'unshare', 'nsenter'):
        if not shutil.which(name):
            skip(f'{name} is not installed (Debian: iproute2, util-linux)')
    words = ['unshare', '--net', '--mount', '--uts', '--pid', '--fork', '--kill-child',
             '--mount-proc']
    if os.geteuid() != 0:
        words += ['--user', '--map-root-user']
    trial = 'ip link add lan type bridge && ip link add port0 type veth peer name port1'
    probe = subprocess.run([*words, 'sh', '-c', trial], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        skip(f'no networks of our own can be made here: {probe.stderr.strip()}')
    os.environ[INSIDE] = '1'
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def call(*words):
    """Runs a command of the set-up; prints its output if it fails."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class Host:
    """A network namespace with a host name; its interfaces are ports of bridges."""

    def __init__(self, name):
        self.name = name
        self.ports = {}  # interface -> (port, bridge)
        # Private mounts, so that /etc/hosts can differ here.
        self.keeper = subprocess.Popen(['unshare', '--net', '--uts', '--mount', 'sleep', 'infinity'],
                                       stdin=subprocess.DEVNULL)
        self._wait_ready()
        self.call('hostname', name)
        self.call('ip', 'link', 'set', 'lo', 'up')

    def _wait_ready(self):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with open(f'/proc/{self.keeper.pid}/comm', encoding='utf-8') as file:
                if file.read().strip() == 'sleep':
                    return
            time.sleep(0.005)
        sys.exit(f'host {self.name} did not come up')

    def words(self, *command):
        """The command line that runs the command on this host."""
        return ['nsenter', '-t', str(self.keeper.pid), '--net', '--uts', '--mount', *command]

    def call(self, *command):
        return call(*self.words(*command))

    def plug(self, iface, bridge, *addresses):
        """Adds an interface with these addresses ('10.77.0.1/24', 'fd77::1/64') to a bridge."""
        port = f'{bridge}-{self.name}'
        call('ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', iface, 'netns',
             str(self.keeper.pid))
        call('ip', 'link', 'set', port, 'master', bridge, 'up')
        self.ports[iface] = (port, bridge)
        for address in addresses:
            nodad = ['nodad'] if ':' in address else []
            self.call('ip', 'address', 'add', address, 'dev', iface, *nodad)
        self.call('ip', 'link', 'set', iface, 'up')

    def cut(self, iface):
        """From here on every packet is lost; the host itself sees no change."""
        call('ip', 'link', 'set', self.ports[iface][0], 'nomaster')

    def mend(self, iface):
        port, bridge = self.ports[iface]
        call('ip', 'link', 'set', port, 'master', bridge)

    def unplug(self, iface):
        """Unplugs the cable: the interface has no carrier."""
        call('ip', 'link', 'set', self.ports[iface][0], 'down')

    def replug(self, iface):
        call('ip', 'link', 'set', self.ports[iface][0], 'up')

    def limit_rate(self, iface, rate):
        self.call('tc', 'qdisc', 'add', 'dev', iface, 'root', 'tbf', 'rate', rate, 'burst', '64kb',
                  'latency', '50ms')

    def drop_tcp(self, iface, load, mask, value):
        """A firewall: drops outgoing IPv4 TCP packets if these bits of the header, loaded by this
        instruction of a packet filter, have that value."""
        steps = ['40 0 0 12', '21 0 7 2048', '48 0 0 23', '21 0 5 6', '177 0 0 14', load,
                 f'84 0 0 {mask}', f'21 0 1 {value}', '6 0 0 2', '6 0 0 0']
        self.call('tc', 'qdisc', 'add', 'dev', iface, 'clsact')
        self.call('tc', 'filter', 'add', 'dev', iface, 'egress', 'protocol', 'all', 'pref', '9',
                  'bpf', 'bytecode', f"{len(steps)},{','.join(steps)}", 'direct-action')

    def refuse_to_begin(self, iface):
        """Connections cannot start here, incoming ones work: a SYN without ACK is dropped."""
        self.drop_tcp(iface, '80 0 0 27', 0x12, 0x02)

    def drop_port(self, iface, port):
        """Nothing is sent to this port, on existing connections either."""
        self.drop_tcp(iface, '72 0 0 16', 0xffff, port)

    def set_hosts_file(self, folder, text):
        path = f'{folder}/hosts-{self.name}'
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        self.call('mount', '--bind', path, '/etc/hosts')


def bridge(name):
    call('ip', 'link', 'add', name, 'type', 'bridge')
    call('ip', 'link', 'set', name, 'up')
    return name


def star(n, ipv4=True, ipv6=False):
    """Returns n hosts on one bridge: host i is 10.77.0.(i+1) or fd77::(i+1) on eth0."""
    lan = bridge('lan')
    hosts = [Host(f'h{i}') for i in range(n)]
    for i, host in enumerate(hosts):
        host.plug('eth0', lan, *([f'10.77.0.{i + 1}/24'] if ipv4 else []),
                  *([f'fd77::{i + 1}/64'] if ipv6 else []))
    return hosts


class Job:
    """Ranks of a program on hosts; stores their output lines with the time of arrival."""

    def __init__(self):
        self.processes = []  # by rank

    def start(self, host, words, env):
        self.processes.append(subprocess.Popen(
            host.words(*words), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, bufsize=1))

    def wait_line(self, rank, text):
        """Reads a rank's output until a line that starts with text; ends the test if none comes."""
        for line in self.processes[rank].stdout:
            print(f'[{rank}] {line}', end='', flush=True)
            if line.startswith(text):
                return line
        sys.exit(f'rank {rank} ended without printing "{text}"')

    def finish(self):
        """Returns the remaining lines and the exit status of each rank."""
        outputs = []
        for rank, process in enumerate(self.processes):
            text = process.stdout.read()
            for line in text.splitlines():
                print(f'[{rank}] {line}', flush=True)
            outputs.append((text, process.wait()))
        return outputs


def limit(seconds):
    """Ends all processes after so many seconds."""
    def late(_number, _frame):
        sys.exit(f'not done after {seconds} s')
    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
