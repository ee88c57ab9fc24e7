#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Records the traffic of torch's TCPStore: record_torch.py REPLAY

Needs a Python with torch. REPLAY is the program of replay_test.c, which replays the captures; with
--talk PORT it is the client of one. Writes next to this file:

    captures/torch-VERSION-client   torch's client and torch's server
    captures/torch-VERSION-server   our client and torch's server

A capture consists of lines "EVENT CONNECTION [HEX]": + connected, > the client sends, < the server
sends, - the server closes the connection.
"""
import datetime
import os
import socket
import subprocess
import sys
import threading

import torch
import torch.distributed as dist

WAIT = datetime.timedelta(seconds=20)


class Proxy:
    """A proxy: forwards each connection to a port and records its traffic."""

    def __init__(self, port):
        self.port, self.events, self.lock, self.count = port, [], threading.Lock(), 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.own_port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def note(self, event, number, data=b''):
        with self.lock:
            if data and self.events and self.events[-1][:2] == (event, number):
                data = self.events.pop()[2] + data
            self.events.append((event, number, data))

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            self.count += 1
            server = socket.create_connection(('127.0.0.1', self.port))
            self.note('+', self.count)
            for source, to, event in (client, server, '>'), (server, client, '<'):
                threading.Thread(target=self.pass_on, args=(source, to, event, self.count),
                                 daemon=True).start()

    def pass_on(self, source, to, event, number):
        data = True
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b''
            if data:
                self.note(event, number, data)
                to.sendall(data)
        if event == '<':
            self.note('-', number)
        try:
            to.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def write(self, name, what):
        version = torch.__version__.split('+')[0]
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'captures',
                            f'torch-{version}-{name}')
        with self.lock, open(path, 'w', encoding='ascii') as f:
            f.write(f'# {what} of torch {torch.__version__}\n# by: python record_torch.py REPLAY\n')
            for event, number, data in self.events:
                f.write(f'{event} {number} {data.hex()}'.rstrip() + '\n')
        print(path)


def torch_store(port, serve):
    return dist.TCPStore('127.0.0.1', port, is_master=serve, wait_for_workers=False, timeout=WAIT)


def talk(store):
    """The calls that replay_test.c makes as a client, and those that only torch has."""
    store.set('key', 'value')
    assert store.get('key') == b'value'
    store.set('empty', '')
    assert store.get('empty') == b''
    store.set('long', 'x' * 300)
    assert len(store.get('long')) == 300
    assert store.add('n', 5) == 5 and store.add('n', -7) == -2
    assert store.get('n') == b'-2'
    for expected, desired in ('x', 'y'), ('', 'one'), ('zwei', 'two'), ('one', 'two'):
        store.compare_set('c', expected, desired)
    store.wait(['key', 'n'], WAIT)
    store.delete_key('empty')
    store.delete_key('empty')
    store.num_keys()
    if hasattr(store, 'check'):
        assert store.check(['key', 'n']) and not store.check(['key', 'empty'])
    if hasattr(store, 'has_extended_api') and store.has_extended_api():
        store.append('log', 'a')
        store.append('log', 'b')
        store.multi_set(['m1', 'm2'], ['1', '22'])
        assert store.multi_get(['m2', 'log', 'm1']) == [b'22', b'ab', b'1']
    if hasattr(store, 'queue_push'):
        store.queue_push('q', 'first')
        store.queue_push('q', 'second')
        assert store.queue_len('q') == 2
        assert store.queue_pop('q') == b'first'
    store.num_keys()


def main():
    server = torch_store(0, True)
    proxy = Proxy(server.port)
    # In a process of its own: some calls of torch hold the GIL while they wait for our threads.
    subprocess.run([sys.executable, __file__, '--talk', str(proxy.own_port)], check=True)
    proxy.write('client', 'Client and server')
    server = torch_store(0, True)
    proxy = Proxy(server.port)
    subprocess.run([sys.argv[1], '--talk', str(proxy.own_port)], check=True)
    proxy.write('server', 'Our client and the server')


if sys.argv[1] == '--talk':
    talk(torch_store(int(sys.argv[2]), False))
else:
    main()
os._exit(0)  # without the shutdown of threads and stores
