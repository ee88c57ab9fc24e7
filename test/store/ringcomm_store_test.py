#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm-store as a shell command: ringcomm_store_test.py PROGRAM"""
import os
import signal
import subprocess
import sys
import tempfile

program = sys.argv[1]
environment = {k: v for k, v in os.environ.items() if not k.startswith('RINGCOMM_')}


def run(*arguments, url=None, data=b''):
    env = dict(environment, **({'RINGCOMM_URL': url} if url else {}))
    done = subprocess.run([program, *arguments], env=env, input=data, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def expect(result, status, output=None, error=''):
    assert result[0] == status, result
    assert output is None or result[1] == output, result
    assert error in result[2], result
    assert (status == 0) == (result[2] == ''), result


def check_commands(url):
    expect(run('set', 'k', 'v a l', url=url), 0, b'')
    expect(run('get', 'k', url=url), 0, b'v a l')
    expect(run('append', 'k', '!', url=url), 0, b'')
    expect(run('--url', url, 'get', 'k'), 0, b'v a l!')
    binary = bytes(range(256)) * 1000
    expect(run('set', 'b', '-', url=url, data=binary), 0, b'')
    expect(run('get', 'b', url=url), 0, binary)
    expect(run('set', 'b', '-', url=url, data=b'x' * (8 * 2**20 + 1)), 1, b'', '8388609')
    expect(run('add', 'n', '5', url=url), 0, b'5\n')
    expect(run('add', '--', 'n', '-7', url=url), 0, b'-2\n')
    expect(run('add', 'n', 'x', url=url), 1, b'', 'x is not an integer')
    expect(run('add', 'k', '1', url=url), 1, b'', '"k"')
    expect(run('count', url=url), 0, b'3\n')
    expect(run('wait', 'k', 'n', url=url), 0, b'')
    expect(run('--timeout', '0.2', 'wait', 'k', 'zz', url=url), 1, b'', '"zz"')
    expect(run('--timeout', '0.2', 'get', 'zz', url=url), 1, b'', '200 ms')
    expect(run('delete', 'k', url=url), 0, b'')
    expect(run('delete', 'k', url=url), 1, b'', '"k"')
    expect(run('count', url=url), 0, b'2\n')


def check_usage():
    assert run('--help')[0] == 0 and b'Examples:' in run('--help')[1]
    expect(run(), 2, b'', 'no command')
    expect(run('fetch', 'k'), 2, b'', '"fetch"')
    expect(run('serve', 'tcp://h:1'), 2, b'', "serve takes no argument 'tcp://h:1'")
    assert run('--version')[0] == 0 and run('--version')[1].startswith(b'ringcomm-store 0.')
    expect(run('get', url='hash:'), 2, b'', 'get KEY')
    expect(run('get', 'k'), 2, b'', 'RINGCOMM_URL')
    expect(run('serve', '--port', '70000'), 2, b'', '70000')
    expect(run('get', 'k', url='tcp://nowhere'), 1, b'', 'no port')


def check_served(end):
    server = subprocess.Popen([program, 'serve', '--port', '0', '--print-url'], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        url = server.stdout.readline().decode().strip()
        assert url.startswith('tcp://127.0.0.1:'), url
        check_commands(url)
        # With a rank's URL the tool connects; it does not try to serve the store again.
        expect(run('count', url=url + '?rank=0&world_size=2'), 0, b'2\n')
        port = url.rsplit(':', 1)[1]
        expect(run('serve', '--port', port), 1, b'', 'in use')
        server.send_signal(end)
        assert server.wait(5) == 0, server.returncode
        expect(run('--timeout', '0.2', 'get', 'k', url=url), 1, b'', '127.0.0.1:' + port)
    finally:
        server.kill()
        server.wait()


check_usage()
check_served(signal.SIGTERM)
check_served(signal.SIGINT)
with tempfile.TemporaryDirectory() as folder:
    check_commands(f'file://{folder}/store')
