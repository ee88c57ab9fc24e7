#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the seeds of the fuzz targets: seeds.py FOLDER [FINDING...]

FOLDER gets a folder for each target, without other contents. A FINDING is a file
corpus/TARGET/found-NAME, which is copied to the folder of its target.

The decoder must accept files named valid-* and reject those named bad-* (replay.c). Files found-*
come from the fuzzers, with the bug that they show. Numbers are in the byte order of x86-64, like
everywhere in our protocols.
"""
import gzip
import hashlib
import hmac
import os
import re
import shutil
import struct
import sys

U64_MAX = 2**64 - 1


def u8(n):
    return struct.pack('<B', n)


def u16(n):
    return struct.pack('<H', n)


def u32(n):
    return struct.pack('<I', n & 0xffffffff)


def u64(n):
    return struct.pack('<Q', n & U64_MAX)


# ---- Texts -----------------------------------------------------------------------------------

def url():
    valid = ['tcp://host:29500?rank=1&world_size=4&server=0', 'tcp://[::1]:1', 'tcp://:0/',
             'tcp://127.0.0.1:65535?server=1', 'file:///tmp/x?world_size=3', 'env://', 'env://?rank=0',
             'hash:', 'hash:name', 'file:///a?rank=2']
    bad = ['', 'tcp:/host:1', 'tcp://host', 'tcp://host:65536', 'tcp://host:-1', 'tcp://::1:5',
           'tcp://[::1:5', 'tcp://[::1]5', 'file://relative', 'file:///', 'env://x', 'http://x:1',
           'tcp://h:1?rank=4&world_size=4', 'tcp://h:1?rank=1&rank=1', 'tcp://h:1?rank', 'tcp://h:1?x=1',
           'tcp://h:1?world_size=0', 'tcp://h:1?rank=99999999999999999999', 'tcp://h: 1',
           'tcp://h:1?rank=+1', 'TCP://h:1', 'tcp://a]:1', 'tcp://a b:1',
           'tcp://a@b:1', 'tcp://[::1]]:1', 'tcp://[a/b]:1']
    return texts(valid, bad)


def texts(valid, bad, prefix=b''):
    seeds = {}
    for kind, items in (('valid', valid), ('bad', bad)):
        for i, item in enumerate(items):
            seeds[f'{kind}-{i:02}'] = prefix + (item if isinstance(item, bytes) else item.encode())
    return seeds


def launch():
    valid = [
        'RINGCOMM_RANK=1\nRINGCOMM_WORLD_SIZE=4\nRINGCOMM_URL=tcp://127.0.0.1:29500\n',
        'RANK=0\nWORLD_SIZE=2\nLOCAL_RANK=0\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\n'
        'MASTER_PORT=29500\nTORCHELASTIC_USE_AGENT_STORE=True\nTORCHELASTIC_RESTART_COUNT=3\n',
        'RINGCOMM_RANK=2\nRINGCOMM_WORLD_SIZE=3\nRINGCOMM_URL=file:///tmp/x\n',
        'RINGCOMM_RANK=0\nRINGCOMM_WORLD_SIZE=1\n',
        'RANK=5\nRINGCOMM_RANK=1\nRINGCOMM_WORLD_SIZE=2\nRINGCOMM_URL=hash:x\n',
        'RINGCOMM_URL=tcp://[::1]:80?rank=1&world_size=2\n',
    ]
    bad = [
        'RANK=0\n', 'RANK=0\nWORLD_SIZE=2\n', 'RANK=2\nWORLD_SIZE=2\n', 'RANK=x\nWORLD_SIZE=2\n',
        'RANK=-1\nWORLD_SIZE=2\n', 'RANK=99999999999\nWORLD_SIZE=2\n',
        'RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=a/b\nMASTER_PORT=1\n',
        'RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=::1]\nMASTER_PORT=1\n',
        'RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=65536\n',
        'RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=' + 'a' * 300 + '\nMASTER_PORT=1\n',
        'RINGCOMM_RANK=0\nRINGCOMM_WORLD_SIZE=2\nRINGCOMM_URL=gopher://x\n',
        'RINGCOMM_RANK=0\nRINGCOMM_WORLD_SIZE=2\nRINGCOMM_URL=hash:\n',
        'RINGCOMM_RANK=0\nRINGCOMM_WORLD_SIZE=2\nRINGCOMM_URL=tcp://h:1?rank=1\n',
        'RANK=0\nWORLD_SIZE=2\nLOCAL_RANK=3\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=1\n',
        'RANK=0\nWORLD_SIZE=2\nTORCHELASTIC_RESTART_COUNT=-1\nMASTER_ADDR=a\nMASTER_PORT=1\n',
    ]
    seeds = texts(valid, bad)
    # Launchers of clusters, whatever the result.
    for name, lines in {
        'ompi': 'OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=1\n'
                'OMPI_COMM_WORLD_LOCAL_SIZE=2\nMASTER_ADDR=127.0.0.1\nMASTER_PORT=1\n',
        'pmi': 'PMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2\n',
        'slurm': 'SLURM_PROCID=3\nSLURM_NTASKS=4\nSLURM_LOCALID=1\nSLURM_STEP_NUM_TASKS=4\n'
                 'SLURM_JOB_ID=77\nSLURM_STEP_ID=0\nSLURM_NODELIST=n[1-2,07]\n'
                 'SLURM_STEP_NODELIST=n[1-2,07]\nSLURM_TASKS_PER_NODE=2(x2)\n',
        'slurm-odd': 'SLURM_PROCID=3\nSLURM_NTASKS=4\nSLURM_STEP_NODELIST=n[1-\n'
                     'SLURM_TASKS_PER_NODE=2(x99999999999)\n',
    }.items():
        seeds['any-' + name] = lines.encode()
    return seeds


def settings():
    sizes = texts(['0', '1', '64K', '1m', '8G', '9223372036854775807'],
                  ['', 'K', '-1', '1KK', '1 K', '1.5', '9223372036854775808', '9999999999G', '0x10'],
                  b'\0')
    numbers = texts(['128', '-4096', '1048576'], ['-4097', '128K', '--1', '1-'], b'\1')
    durations = texts(['1', '90s', '1.5m', '1h', '20us', '3ms'],
                      ['0', '1d', '10M', '1 s', '2h', '-1', '1e3', '1.5.5s'], b'\3')
    secret = texts(['secret\n', 'x', 'two\nlines'], ['', '\n', b'a\0b', b'x' * 4097], b'\2')
    seeds = {}
    for name, part in (('size', sizes), ('number', numbers), ('duration', durations),
                       ('secret', secret)):
        for key, data in part.items():
            kind, i = key.split('-')
            seeds[f'{kind}-{name}-{i}'] = data
    return seeds


# ---- Blobs -----------------------------------------------------------------------------------

def address_field(tag, data):
    return bytes([tag, len(data)]) + data


def address_blob(host=b'host\0', pid=u64(77), extra=b''):
    return (b'RCA1' + address_field(1, host) + address_field(2, b'name\0') + address_field(3, pid) +
            address_field(4, u64(5)) + address_field(5, u64(6) + u64(7)) +
            address_field(7, b'shm,tcp\0') + address_field(6, b'unix-name\0') + extra)


def address():
    tcp4 = address_field(8, b'\x12\x34\x7f\0\0\1')
    tcp6 = address_field(9, b'\x12\x34' + b'\0' * 15 + b'\1')
    good = address_blob(extra=tcp4 + tcp6)
    return {
        'valid-all': good,
        'valid-short': b'RCA1' + address_field(1, b'h\0') + address_field(3, u64(0)),
        'valid-unknown-field': good + address_field(200, b'whatever'),
        'valid-iface': good + address_field(10, b'\0eth0\0') + address_field(10, b'\1\xffib 0\0'),
        'bad-iface-number': good + address_field(10, b'\2eth0\0'),
        'bad-iface-long': good + address_field(10, b'\0' + b'e' * 16 + b'\0'),
        'bad-iface-unended': good + address_field(10, b'\0eth0'),
        'bad-iface-empty': good + address_field(10, b''),
        'valid-many-addresses': address_blob(extra=tcp4 * 20 + tcp6 * 20),
        'bad-magic': b'RCA2' + good[4:],
        'bad-empty': b'',
        'bad-cut': good[:-3],
        'bad-length': good + b'\x01\xff',
        'bad-no-pid': b'RCA1' + address_field(1, b'h\0'),
        'bad-no-host': b'RCA1' + address_field(3, u64(1)),
        'bad-host-unended': address_blob(host=b'host'),
        'bad-host-two-ends': address_blob(host=b'ho\0st\0'),
        'bad-host-long': address_blob(host=b'h' * 203 + b'\0'),
        'bad-pid': address_blob(pid=u64(U64_MAX)),
        'bad-pid-length': address_blob(pid=b'\1\2\3'),
        'valid-life': address_blob(extra=address_field(11, u64(8) + u64(9) + u64(10))),
        'bad-life-length': address_blob(extra=address_field(11, u64(8) + u64(9))),
        'bad-tcp4-length': address_blob(extra=address_field(8, b'\0' * 5)),
        'valid-lacks': good + address_field(12, b'shm cannot be used: x\0'),
        'bad-lacks-unended': good + address_field(12, b'shm'),
        'bad-lacks-long': good + address_field(12, b'x' * 200 + b'\0'),
        'bad-too-long': address_blob(extra=address_field(200, b'x' * 250) * 7),
    }


def failure():
    def message(magic=0x52434d46, status=-5, text=b'it broke', size=None, kind=0, weight=0, ballot=0,
                accepted=0, n=0, missing=b''):
        body = struct.pack('<IiiiIIQQQQ', magic, status, 2, 104, kind, weight, 7, ballot, accepted,
                           99)
        data = (body + b'all_reduce'.ljust(32, b'\0') + text.ljust(512, b'\0') + u32(n) + missing)
        return data if size is None else data[:size].ljust(size, b'\0')

    def activity(sequence=9, algorithm=b'ring', op_name=b'compose'):
        return struct.pack('<QQQQiiiiiIIiQQQiiIi24s24s', 9, sequence, 1000, 4096, 1, 9, 1, 0, 2, 3, 14,
                           1, 5000, 7, 8, 2, 1, 0, 0, algorithm, op_name)

    def inquiry(magic=0x52434d51, state=2, reason=1, reports=1, npeers=2, body=activity()):
        return (struct.pack('<IIQIIII', magic, 1, 7, state, reason, reports, npeers) +
                u32(1) * 16 + body)

    def record(magic=0x52434d52, sequence=3, algorithm=b'ring', collective=1, ncounts=0,
               form=0, memory=0, op=1, op_name=b''):
        return struct.pack('<IHHQQQQiiii24s24sII17Q', magic, form, memory, 7, sequence, 99, 1000,
                           collective, 9, op, 0, algorithm, op_name, 0, ncounts, *range(17))

    def agree(magic=0x52434d41, number=1, kind=4, status=0, origin=-1, left=1000, n=11,
              members=b'\xff\x07', by=-1, excluded=None):
        return struct.pack('<IIIiiIQqiI', magic, number, kind, status, origin, n, 7, left, by,
                           0) + members + (bytes(len(members)) if excluded is None else excluded)

    def creation(magic=0x52434d4e, type=1, kind=0, n=3, epoch=0, left=1000, status=0, origin=-1,
                 state=0, text=b'ranks 0-2'):
        return struct.pack('<IIQQQIIQQQqiiII', magic, type, 7, 5, 99, kind, n, 4, 0, epoch, left,
                           status, origin, state, 0) + text.ljust(480, b'\0')
    group = (1 << 62) | (3 << 32) | 8
    return {
        'valid-left': struct.pack('<IIQ', 0x52434d4c, 0, 7),
        'bad-left-magic': struct.pack('<IIQ', 0x52434d4d, 0, 7),
        'bad-left-reserved': struct.pack('<IIQ', 0x52434d4c, 1, 7),
        'bad-left-cut': struct.pack('<IIQ', 0x52434d4c, 0, 7)[:-1],
        'valid-creation-hello': creation(), 'valid-creation-quit': creation(type=2),
        'valid-creation-go': creation(type=3, epoch=group),
        'valid-creation-fail': creation(type=4, status=-9, origin=2),
        'valid-creation-ask': creation(type=5, left=0),
        'valid-creation-answer': creation(type=6, state=2, kind=3),
        'valid-creation-unended': creation(text=b'\x1bx' * 240),
        'valid-creation-cancel': creation(type=7, origin=1, text=b'rank 1 canceled'),
        'bad-creation-type': creation(type=8), 'bad-creation-type-zero': creation(type=0),
        'bad-creation-kind': creation(kind=4), 'bad-creation-none': creation(n=0),
        'bad-creation-epoch': creation(type=3, epoch=7),
        'bad-creation-epoch-of-hello': creation(epoch=group),
        'bad-creation-epoch-shrunk': creation(type=3, epoch=1 << 63),
        'bad-creation-status': creation(type=4, status=3),
        'bad-creation-no-status': creation(type=4),
        'bad-creation-status-of-hello': creation(status=-9),
        'bad-creation-left': creation(left=-2), 'bad-creation-state': creation(type=6, state=3),
        'bad-creation-cut': creation()[:-1],
        'valid-record-counts': record(collective=14, ncounts=16),
        'bad-record-counts': record(collective=14, ncounts=17),
        'valid-record-controls': record(algorithm=b'\x1b[2Jring\r\n'),
        'valid-controls': message(text=b'\x1b]0;x\x07\x9b2J it \xc2\x9b broke\r\n\x7f'),
        'valid-agree-call': agree(kind=1, members=b'\0\0'),
        'valid-agree-join': agree(kind=2, members=b'\1\2', left=-1),
        'valid-agree-leave': agree(kind=3, members=b'\0\0'),
        'valid-agree-decision': agree(),
        'valid-agree-timeout': agree(status=-5, origin=10),
        'valid-agree-full': agree(n=16192, members=b'\xff' * 2024),
        'valid-agree-excluded': agree(by=3, members=b'\x0f\x07', excluded=b'\xf0\0'),
        'bad-agree-excluded-beyond': agree(excluded=b'\0\x08'), 'bad-agree-by': agree(by=11),
        'valid-agree-cancel': agree(kind=5, members=b'\0\0'),
        'bad-agree-kind': agree(kind=6), 'bad-agree-kind-zero': agree(kind=0),
        'bad-agree-number': agree(number=0), 'bad-agree-origin': agree(origin=11),
        'bad-agree-origin-below': agree(origin=-2), 'bad-agree-status': agree(status=3),
        'bad-agree-status-of-join': agree(kind=2, status=-5), 'bad-agree-left': agree(left=-2),
        'bad-agree-none': agree(n=0, members=b''), 'bad-agree-beyond': agree(members=b'\xff\x08'),
        'bad-agree-cut': agree(members=b'\xff'), 'bad-agree-long': agree(members=b'\xff\7\0'),
        'bad-agree-many': agree(n=16193, members=b'\xff' * 2025),
        'bad-agree-absurd': agree(n=0xffffffff), 'bad-agree-header': agree()[:47],
        'valid-inquiry': inquiry(), 'valid-inquiry-full': inquiry(npeers=16),
        'bad-inquiry-state': inquiry(state=4), 'bad-inquiry-peers': inquiry(npeers=17),
        'bad-inquiry-peers-absurd': inquiry(npeers=-1 & 0xffffffff),
        'bad-inquiry-magic': inquiry(magic=0x52434d46), 'bad-inquiry-cut': inquiry()[:-4],
        'bad-inquiry-reason': inquiry(reason=2), 'bad-inquiry-reports': inquiry(reports=2),
        'valid-inquiry-question': inquiry(state=0, npeers=0, body=bytes(152)),
        'valid-inquiry-unended': inquiry(body=activity(algorithm=b'x' * 24)),
        'valid-record': record(), 'valid-record-unended': record(algorithm=b'y' * 24),
        'valid-record-operator': record(op=14, op_name=b'\x1b[2Jpremul_sum'),
        'valid-record-operator-unended': record(op=15, op_name=b'z' * 24),
        'bad-record-magic': record(magic=1), 'bad-record-zero': record(sequence=0),
        'bad-record-cut': record()[:-8],
        'valid-record-monitored': record(form=3), 'valid-record-async': record(form=5),
        'bad-record-form': record(form=6),
        'valid-record-device': record(memory=1), 'bad-record-memory': record(memory=2),
        'valid': message(),
        'valid-unended': message(text=b'x' * 512)[:56] + b'y' * 32 + b'x' * 512 + u32(0),
        'valid-missing': message(n=11, missing=b'\xfe\x07'),
        'valid-missing-claim': message(kind=1, weight=2, n=8, missing=b'\x02'),
        'valid-missing-full': message(n=27936, missing=b'\xff' * 3492),
        'bad-missing-beyond': message(n=11, missing=b'\xff\x08'),
        'bad-missing-cut': message(n=11, missing=b'\xff'),
        'bad-missing-long': message(n=11, missing=b'\xff\x07\0'),
        'bad-missing-many': message(n=27937, missing=b'\xff' * 3492),
        'bad-missing-absurd': message(n=0xffffffff),
        'bad-missing-of-a-death': message(status=-6, n=11, missing=b'\xfe\x07'),
        'valid-minus-one': message(status=-1),
        'bad-magic': message(magic=1),
        'bad-status-zero': message(status=0),
        'bad-status-positive': message(status=3),
        'bad-status-unknown': message(status=-30000),
        'bad-short': message(size=603),
        'bad-long': message(size=605),
        'bad-kind': message(kind=5, weight=1, ballot=3),
        'bad-record-weight': message(weight=1), 'bad-record-ballot': message(ballot=3),
        'bad-record-accepted': message(accepted=3),
        'valid-claim': message(kind=1, weight=2), 'bad-claim-nothing': message(kind=1),
        'bad-claim-ballot': message(kind=1, weight=1, ballot=3),
        'valid-claim-seen': message(kind=1, weight=3), 'bad-claim-weight': message(kind=1, weight=5),
        'bad-claim-timeout': message(kind=1, weight=4),
        'valid-claim-mismatch': message(kind=1, weight=4, status=-9),
        'bad-claim-mismatch': message(kind=1, weight=2, status=-9),
        'bad-claim-status': message(kind=1, weight=1, status=-1),
        'valid-ask': message(kind=2, weight=1, ballot=3), 'bad-ask-none': message(kind=2, weight=1),
        'valid-ask-highest': message(kind=2, weight=1, ballot=2**62),
        'bad-ask-higher': message(kind=2, weight=1, ballot=2**62 + 1),
        'valid-propose': message(kind=3, weight=1, ballot=3, accepted=3),
        'bad-propose-lower': message(kind=3, weight=1, ballot=3, accepted=2),
        'bad-propose-none': message(kind=3, weight=1),
        'bad-propose-nothing': message(kind=3, ballot=3, accepted=3),
        'valid-word': message(kind=4, ballot=3),
        'valid-word-accepted': message(kind=4, weight=1, ballot=3, accepted=2),
        'bad-word-accepted': message(kind=4, weight=1, ballot=3, accepted=4),
        'bad-word-nothing': message(kind=4, ballot=3, accepted=2),
        'bad-word-none': message(kind=4, weight=1),
        'bad-empty': b'',
    }


def page():
    def words(magic=0x5243504147453039, page_bytes=65536, pid=100, rank=0, size=3, called=5,
              sequence=5, collective=1, called_as=1, failed=0, parting=0, transfer=0, shown=5,
              algorithm=b'ring', op_name=b'premul_sum', waits=2, step=3, nsteps=9, peer=1, moved=10**9, root=-1,
              rows=2, sharing=0, epoch=7, name=b'world', ranges=(0, 32 << 10, 1, 0) + (64 << 10, U64_MAX) * 5):
        head = struct.pack('<QIiiiQQQ14Q', magic, page_bytes, pid, rank, size, 77, rows, sharing,
                           *ranges)
        comm = (struct.pack('<Qii64s', epoch, rank, size, name) +
                struct.pack('<QQQiiiiiiII', called, sequence, 1000, called_as, collective, 9, 1, root,
                            failed, parting, transfer) +
                struct.pack('<QQq24s24siIIiQQq', shown, 4096, moved, algorithm, op_name, waits, step, nsteps,
                            peer, 7, 400, moved))
        return head.ljust(512, b'\0') + comm.ljust(512, b'\0')

    def job(*pages):
        return bytes([len(pages) - 1]) + b''.join(pages)
    idle = words(rank=2, called=4, sequence=0, called_as=3)
    waits = [words(rank=0), words(rank=1)]
    return {
        'valid': job(words()), 'valid-idle': job(idle), 'valid-none-yet': job(words(called=0)),
        'valid-waits-for-nobody': job(words(waits=-1)),
        'valid-waits-for-stranger': job(words(waits=1000000)),
        'valid-odd-collective': job(words(collective=-7)),
        'valid-high-collective': job(words(collective=4)),
        'valid-odd-called': job(words(called_as=99)),
        'valid-long-sequence': job(words(called=U64_MAX, sequence=U64_MAX, shown=U64_MAX)),
        'valid-ahead-of-called': job(words(called=4)),
        'valid-not-shown': job(words(shown=4)), 'valid-step-beyond': job(words(step=10)),
        'valid-future': job(words(moved=2**62)), 'valid-before': job(words(moved=-2**62)),
        'valid-unended': job(words(algorithm=b'\xff\n' * 12)),
        'valid-send': job(words(sequence=0, transfer=1)),
        'valid-recv': job(words(sequence=0, transfer=2)),
        'valid-transfer-odd': job(words(sequence=0, transfer=3)),
        'valid-transfer-stranger': job(words(sequence=0, transfer=2, peer=3)),
        'valid-parting': job(words(parting=1)), 'valid-failed': job(words(failed=-5)),
        'valid-failed-oddly': job(words(failed=-3000)), 'valid-root': job(words(collective=2, root=9)),
        'valid-never-called': job(*waits, idle),
        'valid-circle': job(words(waits=1), words(rank=1, waits=2), words(rank=2, waits=0)),
        'valid-destroys': job(words(sequence=0, transfer=2, waits=1), words(rank=1, parting=1)),
        'valid-name': job(words(name=b'\x1b[2J' + b'\xff' * 60)), 'bad-free': job(words(epoch=0)),
        'valid-many': job(*[words(size=48, rank=r, waits=7, called=5 - (r == 7),
                                  sequence=5 * (r != 7)) for r in range(48)]),
        'valid-many-different': job(*[words(size=48, called=99, rank=r, sequence=r + 1, shown=r + 1,
                                            waits=47 - r) for r in range(48)]),
        'valid-one-of-two': job(words(), bytes(1024)),
        'valid-oversubscribed': job(words(sharing=1)), 'valid-rows-odd': job(words(rows=U64_MAX)),
        'valid-sharing-odd': job(words(sharing=2**63 + 1)),
        'valid-ranges-odd': job(words(ranges=(U64_MAX, U64_MAX - 1) * 3 + (U64_MAX - 2, U64_MAX - 1) * 4)),
        'bad-magic': job(words(magic=0)), 'bad-version': job(words(magic=0x5243504147453032)),
        'bad-size': job(words(page_bytes=292)), 'bad-pid': job(words(pid=0)),
        'bad-rank': job(words(rank=3)), 'bad-rank-negative': job(words(rank=-1)),
        'bad-empty': b'',
    }


def idx():
    def head(*dims, magic=None):
        return struct.pack('>I', 0x800 + len(dims) if magic is None else magic) + b''.join(
            struct.pack('>I', d) for d in dims)
    good = head(2, 3) + bytes(range(6))
    zipped = gzip.compress(good, mtime=0)
    return {
        'valid-2': b'\2' + good, 'valid-1': b'\1' + head(4) + b'abcd', 'valid-gzip': b'\2' + zipped,
        'valid-3': b'\3' + head(1, 1, 1) + b'x',
        'bad-dims': b'\1' + good, 'bad-no-dims': b'\0' + good, 'bad-five-dims': b'\5' + good,
        'bad-magic': b'\2' + head(2, 3, magic=0x802 << 8) + bytes(6),
        'bad-short': b'\2' + good[:-1], 'bad-long': b'\2' + good + b'x', 'bad-empty': b'\2',
        'bad-zero': b'\2' + head(0, 3), 'bad-huge': b'\2' + head(2**32 - 1, 2**32 - 1),
        'bad-product': b'\2' + head(65536, 65536) + b'x', 'bad-head': b'\2' + good[:7],
        'bad-product-wraps': b'\3' + head(2**31, 2**31, 4),
        'bad-gzip-cut': b'\2' + zipped[:-6], 'bad-gzip-sum': b'\2' + zipped[:-5] + b'\xff' * 5,
    }


# ---- The file store --------------------------------------------------------------------------

def file_log():
    def record(key, value):
        return u32(len(key)) + key + u32(len(value)) + value
    good = (record(b'refcount/', b'1') + record(b'/a', b'value') + record(b'/n', b'41') +
            record(b'/b', b'x') + record(b'-/b', b'') + record(b'/e', b''))
    return {
        'valid-empty': b'\xff', 'valid-whole': b'\xff' + good, 'valid-half': b'\x80' + good,
        'valid-late': b'\0' + good, 'valid-empty-key': b'\xff' + record(b'', b'v'),
        'valid-delete-nothing': b'\xff' + record(b'-', b'') + record(b'-/z', b'zz'),
        'valid-no-number': b'\xff' + record(b'/n', b'forty') + record(b'refcount/', b'many'),
        'valid-great-number': b'\xff' + record(b'/n', b'9223372036854775807'),
        'valid-cleanup': b'\xff' + good + record(b'cleanup/', b'-9'),
        'bad-cut': b'\xff' + good[:-3], 'bad-cut-length': b'\xff' + good + b'\1\0',
        'bad-key-length': b'\xff' + good + u32(70000) + b'k' * 10,
        'bad-key-absurd': b'\xff' + u32(-1) + b'k' * 10,
        'bad-value-absurd': b'\xff' + u32(1) + b'k' + u32(-1) + b'v' * 10,
        'bad-value-long': b'\x80' + good + u32(2) + b'/v' + u32(1000) + b'v' * 10,
        'bad-text': b'\xff' + b'This is no store at all, but some file that somebody has.\n' * 3,
    }


# ---- The TCP store ---------------------------------------------------------------------------

(VALIDATE, SET, COMPARE_SET, GET, ADD, CHECK, WAIT, GETNUMKEYS, DELETE_KEY, APPEND, MULTI_GET,
 MULTI_SET, CANCEL_WAIT, PING, QUEUE_PUSH, QUEUE_POP, QUEUE_LEN, LIST_KEYS, BARRIER) = range(19)
XADD, XCOMPARE_SET, XAPPEND = 0x40, 0x41, 0x42
HELLO = u8(VALIDATE) + u32(0x3C85F7CE)


def value(data):
    return u64(len(data)) + data


def request(op, *fields):
    return u8(op) + b''.join(value(f) if isinstance(f, bytes) else u64(f) for f in fields)


def listed(op, *items):
    return u8(op) + u64(len(items)) + b''.join(items)


def piece(data, client=0):
    return u8(client << 7) + u16(len(data)) + data


SILENT, GONE_0, GONE_1 = u8(126), u8(127), u8(255)


def store_server():
    def talk(*messages, flags=0, client=0):
        return u8(flags) + b''.join(piece(m, client) for m in messages)
    a, b = value(b'/a'), value(b'/b')
    basics = [HELLO, request(SET, b'/a', b'1'), request(GET, b'/a'), request(ADD, b'/a', 41),
              listed(CHECK, a, b), request(GETNUMKEYS), request(DELETE_KEY, b'/a'),
              request(APPEND, b'/b', b'xyz'), listed(MULTI_GET, a, b),
              listed(MULTI_SET, a + value(b'v'), b + value(b'')),
              request(COMPARE_SET, b'/a', b'v', b'w'), u8(PING) + u32(77), request(LIST_KEYS)]
    ours = [HELLO, listed(CHECK, value(b'ringcomm/features')), request(XADD, b'/n', -1),
            request(XADD, b'/n', 2**63 - 1), request(XAPPEND, b'/a', b'12'),
            request(XADD, b'/a', 1), request(XCOMPARE_SET, b'/z', b'1', b'2'),
            request(XCOMPARE_SET, b'/z', b'', b'2')]
    queues = [HELLO, request(QUEUE_PUSH, b'/q', b'one'), request(QUEUE_PUSH, b'/q', b''),
              request(QUEUE_LEN, b'/q'), request(QUEUE_POP, b'/q'), request(QUEUE_POP, b'/q'),
              request(QUEUE_POP, b'/q')]
    old = [request(0, b'/a', b'1'), request(2, b'/a'), request(3, b'/a', 5), listed(4, a),
           listed(5, a), request(6), request(8, b'/a')]
    waits = (b'\0' + piece(HELLO + listed(WAIT, a, b, a)) + piece(HELLO + request(SET, b'/b', b'1'), 1) +
             piece(request(QUEUE_PUSH, b'/a', b'1'), 1) + piece(request(SET, b'/a', b''), 1) +
             piece(request(GET, b'/a')))
    barrier = (b'\0' + piece(HELLO + request(BARRIER, b'/x', 2)) +
               piece(HELLO + request(BARRIER, b'/x', 2), 1) + piece(request(GET, b'/x'), 1))
    canceled = (b'\0' + piece(HELLO + listed(WAIT, a)) + piece(u8(CANCEL_WAIT)) +
                piece(listed(WAIT, a, b)) + piece(listed(WAIT, b)) + GONE_0 +
                piece(HELLO + request(SET, b'/b', b'1'), 1))
    whole = b''.join(basics)
    bytewise = u8(0) + b''.join(piece(whole[i:i + 1]) for i in range(len(whole)))
    return {
        'valid-basics': talk(*basics), 'valid-at-once': talk(whole), 'valid-bytewise': bytewise,
        'valid-ours': talk(*ours), 'valid-queues': talk(*queues), 'valid-old': talk(*old),
        'valid-old-second-client': talk(*old, client=1), 'valid-waits': waits,
        'valid-barrier': barrier, 'valid-canceled': canceled,
        'valid-plain-allowed': talk(*basics, flags=3), 'valid-no-keys': talk(HELLO, listed(WAIT)),
        'valid-many-values': talk(HELLO, request(SET, b'/a', b'x' * 2000),
                                  listed(MULTI_GET, *[a] * 200)),
        'any-silent': b'\0' + piece(b'') + SILENT + piece(HELLO, 1) + SILENT,
        'any-old-watch': talk(*old) + piece(b'', 1) + SILENT + piece(b'x', 1),
        'any-gone-while-waiting': b'\0' + piece(HELLO + listed(WAIT, a)) + GONE_0 + GONE_1,
        'bad-plain': talk(HELLO, flags=1), 'bad-no-secret': talk(b'RCMAUTH1I' + b'\0' * 32),
        'bad-proof': talk(b'RCMAUTH1I' + b'\0' * 64, flags=1),
        'bad-role': talk(b'RCMAUTH1A', flags=1),
        'bad-operation': talk(HELLO, u8(99)), 'bad-validate-twice': talk(HELLO, HELLO),
        'bad-magic': talk(u8(0) + u32(1) + b'\xff' * 8),
        'bad-text': talk(b'GET / HTTP/1.1\r\n\r\n'),
        'bad-key-length': talk(HELLO, u8(GET) + u64(8194)),
        'bad-key-absurd': talk(HELLO, u8(GET) + u64(U64_MAX)),
        'bad-value-length': talk(HELLO, u8(SET) + a + u64(8 * 2**20 + 1)),
        'bad-value-absurd': talk(HELLO, u8(SET) + a + u64(U64_MAX - 8)),
        'bad-list': talk(HELLO, u8(MULTI_GET) + u64(131073)),
        'bad-list-absurd': talk(HELLO, u8(WAIT) + u64(U64_MAX)),
        'bad-add': talk(HELLO, request(SET, b'/a', b'x'), request(ADD, b'/a', 1)),
        'bad-add-overflow': talk(HELLO, request(ADD, b'/a', 2**63 - 1), request(ADD, b'/a', 1)),
        'bad-barrier': talk(HELLO, request(SET, b'/x', b'no'), request(BARRIER, b'/x', 2)),
        'bad-old-watch-key': talk(request(7, b'/a')), 'bad-old-operation': talk(u8(13)),
        'bad-multi-set': talk(HELLO, u8(MULTI_SET) + u64(5) + a + value(b'v') + u64(9000)),
    }


def store_client():
    def sends(which, data, features=0):
        return u8(which) + u8(features) + data
    ping, greeted, old = u32(1), u32(0x800001), 2
    return {
        'valid-greet': sends(0, greeted + u8(0)),
        'valid-greet-torch': sends(0, greeted + u8(1)),
        'valid-old-add': sends(2, u64(36), old), 'bad-old-append': sends(3, ping, old),
        'valid-old-count': sends(4, u8(0) + u64(3), old), 'valid-old-wait': sends(5, u8(0), old),
        'valid-old-multi-set': sends(7, u8(0), old), 'bad-old-multi-set': sends(7, u8(1), old),
        'valid-old-compare': sends(10, u8(0) + value(b'value') + value(b'value'), old),
        'valid-old-look': sends(11, u8(0) + value(b'v'), old),
        'valid-old-look-missing': sends(11, u8(1), old),
        'valid-old-multi-get': sends(12, value(b'x') + value(b'') + value(b'y' * 300), old),
        'valid-add': sends(2, u64(36)), 'valid-add-ours': sends(2, u8(0) + u64(36), 1),
        'valid-append': sends(3, ping), 'valid-append-ours': sends(3, u8(1), 1),
        'valid-count': sends(4, u8(0) + u64(3)), 'valid-wait': sends(5, u8(0)),
        'valid-wait-ours': sends(5, u8(0), 1), 'valid-wait-longer': sends(5, u8(1) + u8(0)),
        'valid-old-wait-longer': sends(5, u8(1) + u8(0), old),
        'valid-present': sends(6, b'\0\1\2'), 'valid-multi-set': sends(7, ping),
        'valid-value': sends(8, value(b'hello')), 'valid-value-empty': sends(8, value(b'')),
        'valid-compare-ours': sends(9, u8(1) + value(b'w'), 1),
        'valid-compare-foreign': sends(10, u8(0) + value(b'value') + value(b'value')),
        'valid-look': sends(11, u8(0) + value(b'v')), 'valid-look-missing': sends(11, u8(1)),
        'valid-look-ours': sends(11, u8(1) + value(b''), 1),
        'valid-multi-get': sends(12, value(b'x') + value(b'') + value(b'y' * 300)),
        'bad-ping': sends(0, u32(2) + value(b'1')), 'bad-greet-cut': sends(0, greeted),
        'bad-proof': sends(1, b'RCMAUTH1A' + b'\0' * 64), 'bad-proof-role': sends(1, b'RCMAUTH1I'),
        'bad-proof-text': sends(1, b'HTTP/1.1 400 Bad Request\r\n'),
        'bad-count': sends(4, u8(0) + u64(0)), 'bad-count-negative': sends(4, u8(1) + u64(-5)),
        'bad-count-least': sends(4, u8(0) + u64(-2**63)),
        'bad-wait': sends(5, u8(1) + u8(7)), 'bad-wait-ours': sends(5, u8(7), 1), 'bad-silent': sends(5, b''),
        'bad-length': sends(8, u64(64 * 2**20 + 1)), 'bad-length-absurd': sends(8, u64(U64_MAX)),
        'bad-length-cut': sends(8, u64(2**20) + b'x'), 'bad-compare': sends(9, u8(3), 1),
        'bad-multi-get': sends(12, value(b'x') + u64(U64_MAX)),
    }


# ---- Proof, fifo -----------------------------------------------------------------------------

def auth():
    """The other side's bytes; our own nonce is 0x5a... (auth.c)."""
    ours, theirs, secret = b'\x5a' * 32, bytes(range(32)), b'fuzz secret'

    def hello(role, magic=b'RCMAUTH1'):
        return magic + role + theirs

    def proof(role, own=theirs, peer=ours, key=secret):
        return hmac.new(key, b'ringcomm-auth-1' + role + own + peer, hashlib.sha256).digest()
    acceptor, initiator = hello(b'A') + proof(b'A'), hello(b'I') + proof(b'I')
    return {
        'valid-we-begin': b'\1' + acceptor, 'valid-we-accept': b'\0' + initiator,
        'valid-in-pieces': b'\x1d' + acceptor, 'valid-bytewise': b'\5' + acceptor,
        'valid-more-follows': b'\0' + initiator + b'and then some',
        'bad-secret': b'\0' + hello(b'I') + proof(b'I', key=b'other secret'),
        'bad-role': b'\1' + initiator,
        'bad-reflected': b'\0RCMAUTH1A' + ours + proof(b'A', ours, ours),
        'bad-swapped-nonces': b'\0' + hello(b'I') + proof(b'I', ours, theirs),
        'bad-role-in-proof': b'\0' + hello(b'I') + proof(b'A'),
        'bad-magic': b'\0' + hello(b'I', b'RCMAUTH2'), 'bad-text': b'\0GET / HTTP/1.1',
        'bad-leaves': b'\2' + hello(b'I'), 'bad-leaves-at-once': b'\2',
        'any-silent': b'\0', 'any-half': b'\0' + initiator[:50],
    }


def fifo():
    """Scripts: see step() in fifo.c. Slots have 16384 bytes, four places; there are three. write(200) fills one."""
    look = u8(2)
    line = lambda n, kind=0, wide=0, place=0: u8(1 + 10 * (kind + 4 * wide + 8 * place)) + u16(n)
    write = lambda n: u8(3) + u8(n)
    back = lambda reader, n: u8(4 + 10 * reader) + u8(n) + u8(4 + 10 * (reader + 2)) + u8(n)
    wild = lambda len0, seq0, len1, seq1, bits=0: (
        u8(5) + u16(len0) + u8(0) + u8(seq0) + u16(len1) + u8(bits) + u8(seq1))
    put = lambda at, data: u8(10 * len(data)) + u16(at) + data
    send, done = lambda n: u8(6) + u16(n), u8(9)
    wanted = lambda number, piece: u8(7 + 10) + u8(number) + u8(piece)  # piece from 1
    claims = lambda number, back, n: u8(7 + 20) + u8(number) + u8(back) + u16(n)
    bounced, helped, opened = u8(8) + u8(0), lambda n: u8(8 + 10) + u8(n), lambda n: u8(8 + 20) + u8(n)
    two, one = u8(0), u8(1)
    get, mapped, posted = 1, 2, 3
    reader_line = 2 * 128  # the first header, after two readers' counters
    seeds = {
        'valid-messages': (line(0) + look + line(40) + look + line(104) + look + line(105) + look +
                           line(200) + look) * 3,
        'valid-nothing': look * 5,
        'valid-writes': (write(1) + write(200) + write(105) + write(41) + write(150) + write(200) +
                         back(0, 0) + back(1, 0) + write(200) + write(5)),
        'valid-wild-within': wild(10, 1, 200, 1) + look,
        'bad-mapped': put(reader_line, u64(1)) + put(reader_line + 16, u64(1 << 63 | 1)) + look,
        'bad-get-of-two': line(100, get) + look,
        'bad-length': line(16385) + look, 'bad-length-absurd': put(reader_line, u64(1)) +
        put(reader_line + 16, u64(U64_MAX >> 3)) + look,
        'valid-places': b''.join(line(4096, place=place) + look for place in range(4)) * 2,
        'bad-place': line(4097, place=3) + look, 'bad-place-inline': line(8, place=1) + look,
        'bad-place-get': line(300, get, place=1) + look,
        'bad-ahead': put(reader_line, u64(2)) + look,
        'bad-far-ahead': put(reader_line, u64(-1)) + look,
        'bad-counter': put(0, u64(5)) + write(200) * 4,
        'bad-counter-back': (write(200) * 3 + back(0, 0) + back(1, 0) + write(200) * 3 +
                             put(0, u64(0)) + write(200)),
        'bad-slots': put(8, u64(5)) + write(200) * 4,
        'bad-slots-back': (write(200) * 3 + back(0, 0) + back(1, 0) + write(200) * 3 +
                           put(8, u64(0)) + write(200)),
        'any-wild': wild(10, 1, 65535, 1) + look + line(7) + look + wild(201, 2, 0, 3) + look,
        'any-wild-zero-copy': wild(0, 1, 300, 1) * 3, 'any-wild-places': wild(4096, 1, 16384, 1, bits=3) * 3,
    }
    seeds = {name: two + script for name, script in seeds.items()}
    return seeds | {
        'valid-one': one + (line(0) + look + line(105) + look + line(200) + look) * 3,
        'valid-one-writes': one + write(1) + write(200) * 3 + back(0, 0) + write(200),
        'valid-get': one + line(100, get) + look * 2 + bounced + look + line(3) + look,
        'valid-get-long': one + line(1000, get) + look * 2 + (bounced + look * 2) * 5 + line(3) + look,
        'valid-get-unbrought': one + line(30000, get) + look * 9,
        'valid-get-open': one + opened(0) + line(255, get, 1) + look * 2 + (bounced + look * 2) * 9,
        'valid-get-closed': one + opened(7) + line(255, get, 1) + look * 5,
        'valid-get-most': one + line(1 << 15, get, 1) + look * 3,
        'valid-get-helped': one + line(65535, get) + look + helped(1) + look * 3,
        'valid-sent': one + send(100) + done + wanted(1, 1) + back(0, 0) + done + send(65535) +
        wanted(2, 1) + wanted(2, 2) + wanted(2, 0) + wanted(2, 255) + wanted(1, 1) + done,
        'valid-sent-full': one + send(1000) * 5 + wanted(3, 5) + wanted(3, 6) + wanted(4, 1) + done,
        'valid-sent-copied': one + send(60000) + claims(1, 0, 300) + claims(2, 1, 65535) +
        claims(3, 255, 0) + back(0, 0) + done, 'valid-sent-to-two': two + send(100) + write(5) + done,
        'valid-wanted-late': one + send(300) + back(0, 0) + done + back(0, 1) + wanted(1, 1),
        'valid-wanted-late-again': one + send(300) + back(0, 0) + done + send(300) + back(0, 2) +
        wanted(1, 1), 'bad-get-too-long': one + line((1 << 15) + 1, get, 1) + look,
        'valid-get-claims': one + opened(7) + line(65535, get) + look + claims(1, 255, 300) + opened(0) + look * 4,
        'any-get-shorter': one + line(500, get) + look * 2 + (bounced + look * 2) * 2 + line(200, get) +
        (bounced + look * 2) * 3,
        'bad-mapped-one': one + line(100, mapped) + look, 'bad-posted': one + line(100, posted) + look,
        'bad-mapped-too-long': one + line((1 << 15) + 1, mapped, 1) + look,
    }


def location():
    huge = 2 << 20
    def one(at, length, offset, n, end=0):
        return u8(end) + u32(n) + u64(at) + u64(length) + u64(offset)
    good = one(huge, 65536, 100, 4096)
    return {
        'valid-block': good + one(huge, 65536, 0, 65536, end=1) + good,
        'valid-first': one(0, 4096, 0, 4096) + one(0, huge, 4095, 1),
        'valid-empty': one(0, 4096, 4096, 0),
        'bad-past-block': good + one(huge, 65536, 65000, 4096),
        'bad-past-file': one(huge, 65536 + 4096, 0, 10),
        'bad-after-file': one(2 * huge, 4096, 0, 10),
        'bad-unaligned': one(4096, 4096, 0, 10), 'bad-odd-length': one(0, 4097, 0, 10),
        'bad-no-block': one(0, 0, 0, 0),
        'bad-overflow': one(huge, U64_MAX - 4095, 0, 10) + one(-huge, huge, 0, 10),
        'bad-offset': one(huge, 65536, U64_MAX - 4, 100),
    }


# ---- Links -----------------------------------------------------------------------------------

JOB = 0x1122334455667788


with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../base/wire_version.h'), encoding='ascii') as f:
    VERSION = int(re.search(r'#define RCMI_WIRE_VERSION (\d+)', f.read()).group(1))


def greeting(kind=1, index=0, magic=0x52434d48, version=VERSION, sender=0, to=1, nranks=3, job=JOB,
             transport=b'tcp'):
    return (struct.pack('<IHBBIIIIQ', magic, version, kind, index, sender, to, nranks, 0, job) +
            transport.ljust(16, b'\0'))


def hello():
    def answer(status, magic=0x52434d48, version=VERSION, text=b'no'):
        return struct.pack('<IHH', magic, version, status) + text.ljust(152, b'\0')
    dialled, unix, secret, leaves, pieces = 1, 2, 4, 8, 0x30
    in_shm = greeting(transport=b'shm')
    return {
        'valid-tcp': u8(0) + greeting(), 'valid-shm': u8(unix) + in_shm,
        'valid-in-pieces': u8(pieces) + greeting(), 'valid-rank-2': u8(0) + greeting(sender=2),
        'any-then-a-frame': u8(0) + greeting() + u32(4) + u16(1) + u16(0) + u32(1),
        'valid-answer': u8(dialled) + answer(1), 'valid-busy': u8(dialled) + answer(2),
        'valid-answer-in-pieces': u8(dialled | pieces) + answer(1),
        'bad-answer': u8(dialled) + answer(3), 'bad-answer-magic': u8(dialled) + answer(1, magic=1),
        'bad-answer-version': u8(dialled) + answer(1, version=VERSION + 1),
        'bad-answer-status': u8(dialled) + answer(77, text=b'\x1b[2J' * 30 + b'xx'),
        'any-no-answer': u8(dialled | leaves), 'bad-leaves': u8(leaves) + greeting()[:20],
        'bad-magic': u8(0) + greeting(magic=0x484d4352), 'bad-version': u8(0) + greeting(version=1),
        'bad-text': u8(0) + b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', 'bad-first-word': u8(0) + u32(5),
        'bad-kind': u8(0) + greeting(kind=3), 'bad-data-first': u8(0) + greeting(kind=2),
        'bad-data-index': u8(0) + greeting(kind=2, index=255),
        'bad-sender': u8(0) + greeting(sender=3), 'bad-self': u8(0) + greeting(sender=1),
        'bad-to': u8(0) + greeting(to=0), 'bad-size': u8(0) + greeting(nranks=4),
        'bad-job': u8(0) + greeting(job=JOB + 1),
        'bad-transport': u8(0) + greeting(transport=b'rdma'),
        'bad-transport-self': u8(0) + greeting(transport=b'self'),
        'bad-transport-unended': u8(0) + greeting(transport=b't' * 16),
        'bad-shm-by-tcp': u8(0) + in_shm, 'bad-tcp-by-unix': u8(unix) + greeting(),
        'bad-no-proof': u8(secret) + greeting(),
        'bad-wrong-proof': u8(secret) + b'RCMAUTH1I' + b'\0' * 64,
        'any-silent-before-secret': u8(secret),
    }


OFFER, OPEN, ACK, CLOSE, MESSAGE, BYE, BEAT, BYE_ACK, READY, DECLINE, FAILED = range(1, 12)
SLOTS, SLOT_BYTES, SEGMENT_HEAD, RING = 2, 128, 4096 + 65536, 12288


def opening(serial=5, epoch=1, number=3, nreaders=1, reader=0, slots=SLOTS, slot_bytes=SLOT_BYTES, plane=0):
    return struct.pack('<QQIIIIII', epoch, slot_bytes, serial, number, nreaders, reader, slots, plane)


def control():
    """Scripts: see step() in control.c."""
    def frame(kind, body=b'', fds=0):
        return u8(0) + u8(kind) + u16(fds) + u16(len(body)) + body

    def use(slot, n=0):
        return u8(5 + 16 * slot) + u8(n)

    def raw(data):
        return u8(1) + u16(len(data)) + data

    def of_plane(plane, kind, body=b''):
        return raw(u32(len(body)) + u16(kind) + u8(0) + u8(plane) + body)

    def memory(at, data):
        return u8(6) + u16(at // 8) + u8(len(data)) + data

    def write(n):
        return u8(2) + u8(n)

    def read(n):
        return u8(3) + u8(n)

    def close(slot):
        return u8(4 + 16 * slot)

    def open_ring(at=SEGMENT_HEAD, length=RING, reader=0, fds=0, **fields):
        ring = struct.pack('<QQIIQ', at & U64_MAX, length, 1, reader, 1)
        return frame(OPEN, opening(**fields) + ring, fds) + read(3)
    shm, tcp, script = b'\0', b'\1', 2
    data_hello, say, leave = u8(8), u8(9), u8(10)
    segment, small, unsealed, event, blocking, null = range(1, 7)
    offer_shm = segment + 8 * event
    ring_shm = struct.pack('<QQIIQ', SEGMENT_HEAD, RING, 1, 0, 1)
    slots_tcp = struct.pack('<QII', SLOT_BYTES, 0, SLOTS)
    open_shm = frame(OPEN, opening() + ring_shm)
    open_tcp = frame(OPEN, opening() + slots_tcp)
    # A message in the peer's ring: one counter of 128 bytes, then the header.
    line = SEGMENT_HEAD + 128
    arrives = memory(line + 8, u64(7) + u64(5) + b'hello') + memory(line, u64(1))
    message_tcp = u8(7) + u16(24 + 5) + struct.pack('<IIQQ', 0x52434d31, 0, 5, 7) + b'hello'
    shm_cases = {
        'valid-shm-nothing': b'', 'valid-shm-message': frame(MESSAGE, b'x' * 4096),
        'valid-shm-read': open_shm + read(3) + arrives + use(3) + use(3) + close(3),
        'valid-shm-read-early': read(3) + open_shm + use(3),
        'valid-shm-write': write(2) + frame(ACK, u32(1) + u32(0)) + use(2, 40) + use(2, 128),
        'valid-shm-close': write(2) + close(2) + frame(CLOSE, u32(1) + u32(0) + u64(0)),
        'valid-shm-withdraw': open_shm + frame(CLOSE, u32(5) + u32(1) + u64(0)) + read(3),
        'valid-shm-last': open_shm + read(3) + frame(CLOSE, u32(5) + u32(1) + u64(2)) + arrives + use(3),
        'valid-shm-say': say + frame(MESSAGE, b'y') + leave,
        'valid-shm-multicast': frame(OPEN, opening(number=0x10003, nreaders=2, reader=1) +
                                     struct.pack('<QQIIQ', SEGMENT_HEAD, RING, 2, 1, 1)) +
        read(0x43) + use(1),
        'any-shm-bye': frame(BYE) + leave,
        'bad-shm-type': frame(12), 'any-shm-failed': frame(FAILED, b'no \x1b[2J'), 'bad-shm-failed-long': frame(FAILED, b'x' * 401), 'bad-shm-ready-again': frame(READY), 'bad-shm-decline-late': frame(DECLINE, b'no'), 'bad-shm-length': raw(u32(5000) + u32(5)),
        'any-shm-plane-offer': of_plane(1, OFFER, b'abc') + of_plane(1, DECLINE, b'no'),
        'any-shm-plane-declined': of_plane(1, DECLINE, b'no \x1b[2J') + open_shm + read(3),
        'bad-shm-plane-ready': of_plane(1, READY), 'bad-shm-plane-unknown': of_plane(2, OFFER),
        'bad-shm-plane-decline-long': of_plane(1, DECLINE, b'x' * 481),
        'bad-shm-plane-message': of_plane(1, MESSAGE, b'x'),
        'bad-shm-open-plane': frame(OPEN, opening(plane=1, number=0x40003)),
        'bad-shm-open-plane-unknown': frame(OPEN, opening(plane=9, number=0x40003)),
        'bad-shm-length-absurd': raw(u32(-1) + u32(5)),
        'bad-shm-offer-again': frame(OFFER, bytes(24), offer_shm),
        'bad-shm-empty-message': frame(MESSAGE),
        'bad-shm-message-length': raw(u32(4097) + u32(5) + b'x' * 4097),
        'bad-shm-fds-announced': raw(u32(1) + u16(5) + u8(3) + u8(0) + b'x'),
        'bad-shm-ack': frame(ACK, u32(77) + u32(0)), 'bad-shm-ack-short': frame(ACK, b'\1'),
        'bad-shm-ack-twice': write(2) + frame(ACK, u32(1) + u32(0)) * 2,
        'bad-shm-ack-refused': write(2) + frame(ACK, u32(1) + u32(-4) + b'no \x1b[2J'),
        'bad-shm-close': frame(CLOSE, u32(9) + u32(0) + u64(0)), 'bad-shm-close-short': frame(CLOSE, u32(9)),
        'bad-shm-open-short': frame(OPEN, opening()[:20]),
        'bad-shm-open-long': frame(OPEN, opening() + b'x' * 300),
        'bad-shm-open-serial': frame(OPEN, opening(serial=0) + ring_shm),
        'bad-shm-open-readers': (frame(OPEN, opening(nreaders=2, number=0x10003) + ring_shm) +
                                 read(0x43)),
        'bad-shm-open-readers-many': frame(OPEN, opening(nreaders=4, number=0x10003)),
        'bad-shm-open-reader': frame(OPEN, opening(reader=1)),
        'bad-shm-open-slots': open_ring(slots=3),
        'bad-shm-open-slot-bytes': open_ring(slot_bytes=2**40),
        'bad-shm-open-memory': open_ring(fds=segment), 'bad-shm-open-event': open_ring(fds=event),
        'bad-shm-open-at': open_ring(at=0), 'bad-shm-open-odd-at': open_ring(at=8193),
        'bad-shm-open-far': open_ring(at=-100), 'bad-shm-open-len': open_ring(length=64),
        'bad-shm-open-len-absurd': open_ring(length=U64_MAX),
        'bad-shm-open-reader-number': open_ring(reader=1),
        'any-shm-read-nonsense': (open_shm + read(3) + memory(line + 8, u64(7) + u64(500)) +
                                  memory(line, u64(1)) + use(3)),
        'any-shm-read-ahead': open_shm + read(3) + memory(line, u64(9)) + use(3),
    }
    tcp_cases = {
        'valid-tcp-nothing': b'', 'valid-tcp-message': frame(MESSAGE, b'x'),
        'valid-tcp-read': open_tcp + read(3) + message_tcp + use(3),
        'valid-tcp-write': write(2) + frame(ACK, u32(1) + u32(0) + slots_tcp) + use(2, 40),
        'valid-tcp-beat': frame(BEAT) * 3, 'bad-tcp-beat': frame(BEAT, b'x'),
        'any-tcp-bye': frame(BYE), 'any-tcp-third-socket': data_hello * 2,
        'bad-tcp-type': frame(0), 'bad-tcp-fds': raw(u32(1) + u16(5) + u8(1) + u8(0) + b'x'),
        'bad-tcp-open-slots': frame(OPEN, opening() + struct.pack('<QII', SLOT_BYTES, 0, 3)) + read(3),
        'bad-tcp-open-short': frame(OPEN, opening() + slots_tcp[:-1]) + read(3),
        'bad-tcp-ack': write(2) + frame(ACK, u32(1) + u32(0) + b'x'),
        'bad-tcp-multicast': write(0x42),
    }
    offers = {
        'valid-offer-shm': (0, frame(OFFER, bytes(24), offer_shm) + frame(READY)),
        'any-offer-shm-not-ready': (0, frame(OFFER, bytes(24), offer_shm) + frame(BEAT)),
        'bad-offer-shm-none': (0, frame(OFFER)),
        'bad-offer-shm-one': (0, frame(OFFER, bytes(24), segment)),
        'bad-offer-shm-three': (0, frame(OFFER, bytes(24), offer_shm + 64 * segment)),
        'bad-offer-shm-null': (0, frame(OFFER, bytes(24), null + 8 * event)),
        'bad-offer-shm-swapped': (0, frame(OFFER, bytes(24), event + 8 * segment)),
        'bad-offer-shm-blocking': (0, frame(OFFER, bytes(24), segment + 8 * blocking)),
        'bad-offer-shm-small': (0, frame(OFFER, bytes(24), small + 8 * event)),
        'bad-offer-shm-unsealed': (0, frame(OFFER, bytes(24), unsealed + 8 * event)),
        'bad-offer-shm-short': (0, frame(OFFER, b'', offer_shm)),
        'bad-offer-shm-magic': (0, memory(0, b'x') + frame(OFFER, bytes(24), offer_shm)),
        'bad-offer-shm-rank': (0, memory(16, u32(2)) + frame(OFFER, bytes(24), offer_shm)),
        'bad-offer-long': (0, frame(OFFER, b'x' * 257, offer_shm)),
        'bad-offer-late': (0, frame(MESSAGE, b'x') + frame(OFFER, bytes(24), offer_shm)),
        'valid-offer-tcp': (1, frame(OFFER, u32(1)) + data_hello + frame(READY)),
        'valid-ready-early': (1, frame(OFFER, u32(1)) + frame(READY) + data_hello),
        'bad-ready-first': (1, frame(READY)), 'bad-ready-long': (1, frame(OFFER, u32(1)) + frame(READY, b'x')),
        'bad-ready-twice': (1, frame(OFFER, u32(1)) + frame(READY) * 2),
        'bad-ready-message': (1, frame(OFFER, u32(1)) + frame(MESSAGE, b'x')),
        'bad-decline-first': (1, frame(DECLINE)), 'bad-decline': (1, frame(OFFER, u32(1)) + frame(DECLINE, b'no \x1b[2J')),
        'bad-decline-long': (1, frame(DECLINE, b'x' * 481)),
        'bad-decline-ready': (1, frame(OFFER, u32(1)) + frame(READY) + frame(DECLINE, b'no')),
        'bad-decline-twice': (1, frame(DECLINE, b'no') * 2),
        'bad-offer-tcp-streams': (1, frame(OFFER, u32(4))),
        'bad-offer-tcp-short': (1, frame(OFFER, b'')),
    }
    seeds = {name: shm + data for name, data in shm_cases.items()}
    seeds.update({name: tcp + data for name, data in tcp_cases.items()})
    seeds.update({name: u8(script | by) + data for name, (by, data) in offers.items()})
    return seeds


def tcp_frames():
    """Scripts: see step() in tcp_frames.c. Entry 0 of our table is the writer, 1 the reader."""
    data_kind, credit_kind = 0x52434d31, 0x52434d32

    def header(kind, index, length, meta):
        return struct.pack('<IIQQ', kind, index, length, meta)

    def sends(data):
        return u8(0) + u16(len(data)) + data

    def message(n, index=1):
        return header(data_kind, index, n, 9) + b'm' * n
    receive, reader_closed, writer_closed = u8(1), u8(5), u8(6)
    write = lambda n: u8(2) + u8(n)
    expect = lambda eights: u8(3 + 8 * eights)
    zero_copy = lambda n: u8(4 + 8 * n)
    whole, slot = message(100), message(128)
    return {
        'valid-message': sends(message(5)) + receive,
        'valid-two': sends(message(0) + message(128)) + receive * 2,
        'valid-many': (sends(message(128)) + receive) * 6,
        'valid-bytewise': b''.join(sends(whole[i:i + 1]) for i in range(len(whole))) + receive,
        'valid-credit': write(10) + sends(header(credit_kind, 0, 0, 1)),
        'valid-credits': write(1) + write(2) + sends(header(credit_kind, 0, 0, 2)) + write(3) + zero_copy(20),
        'valid-expected': expect(16) + sends(whole[:60]) + sends(whole[60:]) + receive,
        'valid-expected-too-small': expect(2) + sends(whole) + receive,
        'valid-withdrawn': expect(16) + sends(whole[:60]) + expect(0) + sends(whole[60:]) + receive,
        'valid-full': (sends(slot) + receive) * 3 + sends(slot[:100]) + sends(slot[100:] + slot) + receive * 2,
        'valid-full-many': (sends(slot * 2) + receive * 2) * 2 + sends(slot + whole) + receive * 2 +
        sends(message(0) + slot),
        'valid-full-short': sends(slot) + receive + sends(whole + message(3)) + receive * 2,
        'valid-full-expected': sends(slot) + receive + expect(16) + sends(slot + whole) + receive * 2,
        'valid-full-expected-small': sends(slot) + receive + expect(2) + sends(slot + whole) + receive * 2,
        'valid-full-withdrawn': sends(slot) + receive + expect(16) + sends(slot[:20]) + expect(0) +
        sends(slot[20:]) + receive,
        'valid-full-mixed': write(1) + sends(slot) + receive + expect(16) +
        sends(header(credit_kind, 0, 0, 1) + whole + slot) + receive * 2,
        'valid-full-credits': sends(slot) + receive + (write(1) + sends(header(credit_kind, 0, 0, 1))) *
        12 + sends(whole + slot) + receive * 2,
        'valid-full-closed': sends(slot) + reader_closed + sends(slot + slot),
        'bad-full-kind': sends(slot) + receive + sends(header(5, 1, 0, 0) + slot),
        'bad-full-length': sends(slot) + receive + sends(header(data_kind, 1, 129, 0) + slot),
        'bad-full-overrun': sends(slot) + receive + sends(slot * 3),
        'valid-late': reader_closed + sends(whole) + sends(header(data_kind, 0x10001, 3, 0) + b'xyz'),
        'valid-closed-within': sends(whole[:60]) + reader_closed + sends(whole[60:]),
        'valid-closed-expected': expect(16) + sends(whole[:60]) + reader_closed + sends(whole[60:]),
        'valid-writer-closed': zero_copy(20) + write(7) + writer_closed,
        'bad-kind': sends(header(5, 1, 0, 0)),
        'bad-text': sends(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
        'bad-index': sends(header(data_kind, 0xffff, 3, 0)),
        'bad-length': sends(header(data_kind, 1, 129, 0)),
        'bad-length-absurd': sends(header(data_kind, 1, U64_MAX, 0)),
        'bad-to-writer': sends(header(data_kind, 0, 3, 0) + b'xyz'),
        'bad-overrun': sends(message(1) * 3),
        'bad-credit-length': write(1) + sends(header(credit_kind, 0, 1, 1)),
        'bad-credit-none': sends(header(credit_kind, 0, 0, 1)),
        'bad-credit-zero': write(1) + sends(header(credit_kind, 0, 0, 0)),
        'bad-credit-absurd': write(1) + sends(header(credit_kind, 0, 0, U64_MAX)),
        'bad-credit-to-reader': sends(header(credit_kind, 1, 0, 1)),
        'bad-credit-index': sends(header(credit_kind, 0x8000, 0, 1)),
    }


def verbs():
    """Offers to a side that did not dial (0) and to one that did (1), and scripts of notices (2): see
    step() in verbs.c."""
    hello_kind, data_kind, credit_kind, end_kind, nothing_kind = range(1, 6)
    put_kind, posted_kind, withdraw_kind, withdrawn_kind = range(6, 10)
    reader, writer = 0, 1

    def port(subnet=0, layer=2, number=77, ipv4=0, speed=1000):
        gid = bytes(7) + bytes([subnet]) + bytes(8)
        return struct.pack('<16sIHHBBBB', gid, number, speed, 0, layer, 3, ipv4, 0)

    def offer(*ports, magic=0x52434d56, nports=None, chosen=0, spread=0):
        head = struct.pack('<IBBHQ', magic, len(ports) if nports is None else nports, chosen, spread, 0)
        return head + b''.join(ports) + bytes(28 * (8 - len(ports)))

    def notice(kind, end=reader, length=0, receives=0, meta=0, data=b''):
        return u8(0) + u8(kind) + u8(end) + u16(length) + u8(receives) + u8(meta) + u8(len(data)) + data

    def raw(data):
        return u8(1) + u8(len(data)) + data

    def tiny(n):
        return notice(data_kind, length=n, meta=n, data=b't' * n)

    def failed(status):
        return u8(7) + u8(status) + u16(0)

    def posted(number, end=writer, length=200, meta=0):
        return notice(posted_kind, end, meta=meta, data=struct.pack('<QQQII', number, 4096, length, 7, 0))
    called, caller, link = u8(0), u8(1), u8(2)
    sent, receive, pay, reader_closed, writer_closed = u8(2), u8(3), u8(5), u8(6), u8(6 + 8)
    write = lambda n: u8(4) + u8(n)
    post = lambda n: u8(4 + 8) + u8(n)
    return {
        'valid-offer': called + offer(port()),
        'valid-offer-four': called + offer(port(9), port(1), port(8), port(0)),
        'valid-offer-spread': called + offer(*[port(n % 2) for n in range(8)], spread=65535),
        'valid-choice': caller + offer(port(1), chosen=1),
        'valid-choice-among': caller + offer(port(9), port(0), port(1, number=0), spread=3),
        'bad-offer-none': called + offer(),
        'bad-offer-many': called + offer(port(), nports=9),
        'bad-offer-number': called + offer(port(number=0)),
        'bad-offer-ipv4': called + offer(port(ipv4=255)),
        'bad-offer-magic': called + offer(port(), magic=1),
        'bad-offer-subnet': called + offer(port(7)),
        'bad-offer-layer': called + offer(port(layer=1)),
        'bad-offer-short': called + offer(port())[:-1],
        'bad-choice': caller + offer(port(), chosen=2),
        'bad-choice-of-two': caller + offer(port(1, number=0), port(1), chosen=1),
        'bad-choice-other': caller + offer(port(0), port(1), chosen=1),
        'valid-tiny': link + tiny(0) + tiny(128) + receive * 2 + pay,
        'valid-large': link + notice(data_kind, length=256) + receive + notice(data_kind, length=129) + receive,
        'valid-many': link + (tiny(5) + receive + pay) * 30 + sent * 4 + (tiny(5) + receive) * 30,
        'valid-nothing': link + notice(nothing_kind),
        'valid-credits': link + (write(7) + write(200) + notice(credit_kind, writer, meta=2)) * 9 + sent,
        'valid-receives': link + write(1) + notice(nothing_kind, receives=2),
        'valid-full': link + (write(200) + notice(credit_kind, writer, meta=1)) * 127 + write(200) + sent +
        notice(credit_kind, writer, meta=1),
        'valid-end': link + tiny(3) + notice(end_kind) + receive + reader_closed,
        'valid-closed': link + reader_closed + tiny(3) + notice(end_kind),
        'valid-late-credit': link + write(5) + writer_closed + sent + notice(credit_kind, writer, meta=1),
        'bad-raw': link + raw(b'GET / HTTP/1.1'),
        'bad-short': link + raw(b'x'),
        'bad-kind': link + notice(0),
        'bad-kind-high': link + notice(10),
        'valid-put': link + (post(200) + notice(put_kind, length=200) + receive) * 3,
        'valid-put-beside': link + post(200) + notice(data_kind, length=200) + receive + tiny(4) + receive,
        'valid-posted': link + posted(0) + posted(1) + write(200) + write(201) + posted(1),
        'valid-posted-late': link + write(200) + posted(0, meta=1) + write(200) + posted(0),
        'valid-withdrawn': link + posted(0) + notice(withdraw_kind, writer) + write(200) + sent,
        'bad-put': link + notice(put_kind, length=200),
        'bad-put-long': link + post(200) + notice(put_kind, length=201),
        'bad-put-tiny': link + post(200) + notice(put_kind, length=100, data=b'p' * 100),
        'bad-posted-far': link + posted(2),
        'bad-posted-short': link + notice(posted_kind, writer, data=b'short'),
        'bad-posted-to-reader': link + posted(0, reader),
        'bad-posted-credits': link + posted(0, meta=1),
        'bad-withdraw-to-reader': link + notice(withdraw_kind),
        'bad-withdrawn': link + notice(withdrawn_kind),
        'bad-second-hello': link + notice(hello_kind),
        'bad-hello-with-bytes': link + notice(nothing_kind, data=b'x'),
        'bad-receives': link + notice(nothing_kind, receives=200),
        'bad-length': link + notice(data_kind, length=257),
        'bad-length-of-tiny': link + notice(data_kind, length=5, data=b'four'),
        'bad-large-with-bytes': link + notice(data_kind, length=200, data=b'x'),
        'bad-overrun': link + tiny(1) * 3,
        'bad-after-end': link + notice(end_kind) + tiny(1),
        'bad-second-end': link + notice(end_kind) * 2,
        'bad-end-to-writer': link + notice(end_kind, writer),
        'bad-data-to-writer': link + notice(data_kind, writer),
        'bad-data-to-nobody': link + notice(data_kind, 77),
        'bad-after-closed': link + reader_closed + notice(end_kind) + notice(end_kind, 77),
        'bad-credit-to-reader': link + notice(credit_kind, reader, meta=1),
        'bad-credit-none': link + notice(credit_kind, writer, meta=1),
        'bad-credit-zero': link + write(1) + notice(credit_kind, writer),
        'bad-send-there-was-not': link + failed(0),
        'bad-failed': link + write(5) + failed(12) + write(200) + reader_closed + writer_closed,
        'bad-error-absurd': link + failed(255),
    }


def collective():
    """Scripts: see step() in collective.c. Rank 0 receives from rank 2 before rank 1. Slots have
    256 bytes, those of channels of device memory 1024."""
    device, hosts, twice = 1, 2, 4
    gather, scatter, all_gather = 8, 16, 24
    to_device, other_call, other_kind, not_last, announces, elsewhere, far = 2, 4, 8, 16, 32, 64, 128
    zero, huge, more, less, element, double, high = range(1, 8)  # lengths, instead of the right one

    def begin(flags, own=3, one=4, two=5):
        return bytes([flags, own, one, two])

    def data(peer, length=0, op=0):
        return bytes([op | peer - 1, length])

    def announced(peer, length=0, op=0, size=0):
        return bytes([op | announces | peer - 1, length, size])

    def payload(peer, length=0, op=0):
        return data(peer, length, op | to_device)

    def beside(peer):
        return announced(peer) + payload(peer)

    here = begin(device)
    two = beside(2)
    slices = begin(device, 10, 200, 255)
    seeds = {
        'valid-host': begin(0) + data(2) + data(1),
        'valid-host-slices': begin(0, 40, 40, 40) + 2 * data(1) + 2 * data(2),
        'valid-device': here + two + beside(1),
        'valid-device-order': here + payload(1) + payload(2) + announced(1) + announced(2),
        'valid-device-slices': slices + 2 * beside(1) + 2 * beside(2),
        'valid-device-ahead': slices + 2 * (announced(1) + announced(2)) + 2 * (payload(1) + payload(2)),
        'valid-device-empty': begin(device, 3, 0, 5) + two + data(1),
        'valid-device-empty-host': begin(device, 3, 0, 5) + two + data(1, op=other_kind),
        'valid-device-by-slots': here + data(2) + data(1),
        'valid-device-hosts': begin(device | hosts) + beside(1) + data(2),
        'valid-gather': begin(gather) + data(1) + data(2),
        'valid-gather-device': begin(gather | device) + beside(1) + two,
        'valid-scatter': begin(scatter) + data(1),
        'valid-scatter-device': begin(scatter | device) + beside(1),
        'valid-all-gather': begin(all_gather) + data(1) + data(2),
        'valid-all-gather-device': begin(all_gather | device) + payload(1) + payload(2),
        'valid-twice': begin(device | twice) + 2 * (two + beside(1)),
        'valid-announced-beyond': here + announced(2) + two + beside(1),  # not read
        'any-announced-alone': here + announced(2) + announced(1),
        'any-payload-alone': here + payload(2),
        'any-script': here + announced(2, 200) + bytes([9, 9]) + payload(1, 8) + u16(40),
        'bad-announced-host': begin(0) + announced(2),
        'bad-announced-other-host': begin(device | hosts) + announced(2),
        'bad-announced-all-gather': begin(all_gather) + announced(1) + announced(2),
        'bad-announced-all-gather-device': begin(all_gather | device) + announced(1, op=to_device) +
                                           announced(2, op=to_device),
        'bad-announced-empty': begin(device, 3, 0, 5) + two + announced(1, element),
        'bad-announced-empty-zero': begin(device, 3, 0, 5) + two + announced(1, zero),
        'bad-announced-twice': begin(device | twice) + two + announced(2, element) + beside(1),
        'bad-announced-again': slices + announced(2) + bytes([announces | not_last | 1, 8]) + u16(1024) + b'\0' +
                               2 * payload(2),
        'bad-announced-far': here + announced(2, op=far),
        'bad-announced-call': here + announced(2, op=other_call),
        'bad-announced-last': slices + announced(2, op=not_last),
        'bad-announced-kind': here + announced(2, op=other_kind),
        'bad-payload-far': here + announced(2) + payload(2, op=far),
        'bad-payload-call': here + announced(2) + payload(2, op=other_call),
        'bad-payload-last': slices + announced(2) + payload(2, op=not_last),
        'bad-payload-elsewhere': here + announced(2) + payload(2, op=elsewhere),
        'bad-payload-announces': here + announced(2) + announced(2, op=to_device),
        'bad-answer': here + data(2, zero, elsewhere),
        'bad-answer-host': begin(0) + data(2, zero, elsewhere),
        'bad-elsewhere': here + data(2, op=elsewhere),
        'bad-elsewhere-eight': begin(device, 1, 1, 1) + data(2, op=elsewhere),
        'bad-kind': here + data(2, op=other_kind),
        'bad-far': begin(0) + data(2, op=far),
    }
    for name, length in (('zero', zero), ('huge', huge), ('more', more), ('less', less), ('element', element),
                         ('double', double), ('high', high)):
        seeds[f'bad-announced-{name}'] = here + announced(2, length)
        seeds[f'bad-announced-slice-{name}'] = slices + beside(2) + announced(2, length) + payload(2)
        seeds[f'bad-payload-{name}'] = here + announced(2) + payload(2, length)
        seeds[f'bad-length-{name}'] = begin(0) + data(2, length)
    for size in (1, 7, 9, 16, 255):
        seeds[f'bad-announced-in-{size}'] = here + announced(2, size=size)
    return seeds


def p2p():
    """Scripts: see step() in p2p.c. Slots have 1024 bytes; bit 7 of an operation is the peer."""
    def start(flags, get=0, eager=0, more=0):
        """flags: 1 zero-copy sends, 2 posted receives, 4 a small budget, 8 shared slots, 16
        oversubscribed ranks, 32 full and 64 unread slots. get: 0 never, 1 always, 2 from 300 bytes,
        3 up to 600; eager: 0 and 1 swapped. more: 16 posted targets, 32 help, 64 non-temporal
        stores."""
        return u8(flags) + u8(get + (eager << 2) + more)

    def recv(n, tag=1):
        return u8(0) + u16(n) + u8(tag)

    def send(n, tag=1):
        return u8(1) + u16(n) + u8(tag)

    def eager(data, tag=1, odd=0):
        return u8(2) + u8(tag) + u16(len(data)) + u8(odd) + u8(0) + data

    def bare(data, tag=1):
        return u8(66) + u8(tag) + u16(len(data)) + data

    def announce(total, tag=1, ident=0, odd=0):
        return u8(3) + u8(tag) + u16(total) + u8(odd) + u8(ident)

    def data(n, ident=0):
        return u8(5) + u8(ident) + u16(n)

    def credit(n):
        return u8(6) + u16(n)

    def anything(kind, ident=0, rest=b''):
        return u8(7) + u8(kind) + u8(ident) + u8(len(rest)) + rest

    def now(n, data, tag=1, came=1, kind=1, total=None):  # a blocking receive of n bytes
        size = len(data) if total is None else total
        return u8(64) + u16(n) + u8(tag) + u8(came) + u16(size) + u8(kind) + data

    def far(kind, n=16, ident=0):  # its payload must be fetched
        return u8(67) + u8(kind) + u8(ident) + u16(n)

    def send_now(n, tag=1):
        return u8(65) + u16(n) + u8(tag)
    ready, taken, other, flags = u8(4) + u8(0), u8(4) + u8(128), 128, start(0)
    large = announce(2500) + data(1024) + data(1024) + data(452)
    return {
        'valid-eager': flags + recv(10) + eager(b'x' * 10) + eager(b'early') + recv(10),
        'valid-truncated': flags + recv(3) + eager(b'x' * 10) + recv(100) + large,
        'valid-large': flags + recv(3000) + large, 'valid-large-late': flags + announce(2500) +
        recv(3000) + data(1024) + data(1024) + data(452),
        'valid-expected': start(2) + recv(3000) + large, 'valid-any-tag': flags + recv(9, 7) + eager(b'a'),
        'valid-expected-else': start(2) + recv(3000) + announce(2500) + eager(b'z' * 900) +
        data(1024) + data(1024) + data(452),
        # Fetched in pieces of 700 bytes, one per step: with 64 three can be, with 32 none, with 96
        # the get is not tried.
        'valid-got': start(8) + recv(1000) + announce(1000, ident=64),
        'valid-got-late': start(8 + 32) + announce(1400, ident=65) + recv(3000) + eager(b'z') + recv(1),
        'valid-got-truncated': start(8) + recv(600) + announce(2500, ident=64) + recv(9, 7) + eager(b'a'),
        'valid-got-not': start(8) + recv(3000) + announce(1000, ident=32) + data(256) * 3 + data(232),
        'valid-got-not-all': start(8) + recv(3000) + announce(2500, ident=64) + recv(1, 2) * 3 +
        data(576) * 4 + data(196),
        'valid-got-not-later': start(8) + recv(3000) + announce(1000, ident=32) + data(256) * 3 + data(232) +
        recv(3000) + announce(1000, ident=65) + data(256, 1) * 3 + data(232, 1),
        'valid-got-by-sockets': flags + recv(3000) + announce(900, ident=64) + data(900),
        'valid-got-two': start(8) + (recv(3000) + announce(1400, ident=64) + recv(3000) +
                                     announce(1400, ident=65)) * 3 + recv(1) * 9,
        'bad-got-data': start(8 + 32) + recv(3000) + announce(1400, ident=64) + data(1024),
        'bad-got-broken': start(8) + recv(3000) + announce(1400, ident=96) + recv(1),
        'valid-get': start(8, get=1, more=32) + (send(10) + send(900) + send(3500)) * 2 + recv(1, 5) * 9 +
        b''.join(u8(4) + u8(128 + i) for i in range(6)),
        'valid-get-large': start(8, get=2) + send(10) + send(299) + send(900) + send_now(900) + ready +
        recv(1, 5) * 9, 'valid-get-small': start(8, get=3, eager=3) + send(10) + send(900) + taken +
        send(3000), 'valid-get-full': start(8 + 32 + 64, get=1) + send(900) * 3 + recv(1, 5) * 9 + taken +
        recv(1, 5) * 9, 'valid-get-by-sockets': start(0, get=1) + send(900) * 3,
        'valid-eager-never': start(8, eager=1) + send(10) + send(0) + send_now(10) + ready + recv(1, 5) * 3,
        'valid-eager-small': start(8 + 16, eager=3) + send(10) + send(900) + send(600) + ready,
        'bad-get-taken-eager': start(8, get=2) + send(10) + taken,
        'bad-far-eager': start(8) + recv(100) + far(1), 'bad-far-announce': start(8) + far(2, 24),
        'bad-far-bare': start(8) + recv(900) + far(6, 900, 1), 'bad-far-credit': start(8) + far(5, 8),
        'bad-far-data': start(8) + recv(3000) + announce(1000) + far(4, 256),
        'bad-far-now': start(8) + now(10, b'', kind=65) + now(900, b'x' * 50, kind=32 + 6),
        'valid-taken': start(8) + send(3500) + send(3500) + taken + u8(4) + u8(129),
        'bad-taken': flags + taken, 'bad-taken-twice': start(8) + send(3500) + taken * 2,
        'bad-taken-later': start(8) + send(3500) + ready + taken,
        'valid-nothing': flags + recv(0) + announce(0) + announce(0, 2, 1) + recv(5, 2),
        'valid-send': start(1) + send(10) + send(3000) + send(3000) + credit(74),
        'valid-send-ready': start(1) + send(3500) * 90 + ready,
        'valid-two-peers': flags + recv(5) + u8(other) + u16(5) + u8(1) + eager(b'one') + u8(other + 2) +
        u8(1) + u16(3) + u8(0) + u8(0) + b'two',
        'bad-data': flags + data(5), 'bad-data-size': flags + recv(3000) + announce(2500) + data(1000),
        'bad-data-after': flags + recv(3000) + large + data(1),
        'bad-data-of-nothing': flags + recv(0) + announce(0) + data(0),
        'bad-ready': flags + ready, 'bad-credit': flags + credit(1),
        'bad-credit-length': flags + anything(5, 0, b'abc'),
        'bad-short': flags + anything(1, 0, b'abc'), 'bad-kind': flags + anything(9),
        'bad-kind-zero': flags + anything(0), 'bad-damaged': flags + anything(1 + 16),
        'bad-tag-any': flags + anything(1, 0, b'\xff' * 8 + bytes(8)) + recv(1, 7),
        'bad-tag-any-rts': flags + recv(10, 7) + anything(2, 0, b'\xff' * 8 + bytes(24)),
        # Between device memory, which does not exist here.
        'valid-device-announced': flags + recv(3000) + announce(2500, odd=249) + data(1024) + data(1024) + data(452),
        'bad-device-announced': flags + recv(3000) + announce(2500, odd=248),
        'bad-device-announced-empty': flags + recv(3000) + announce(0, odd=249),
        'bad-device-ready': start(8) + send(3500) + u8(4) + u8(64),
        'bad-device-ready-unknown': flags + u8(4) + u8(64),
        'bad-eager-length': flags + u8(2) + u8(1) + u16(50) + u8(255) + u8(0) + b'x',
        'bad-announce-long': flags + recv(10) + announce(2500, odd=255) + data(1023),
        'bad-eager-flood': flags + eager(b'x' * 1000, odd=250) * 10,
        'valid-bare': flags + recv(10) + bare(b'x' * 10) + bare(b'early') + recv(10) + bare(b'') + recv(0),
        'valid-bare-long': flags + recv(3) + bare(b'x' * 10) + bare(b'other', 2) + recv(5, 7),
        'valid-bare-expected': start(2) + recv(900) + bare(b'x' * 900) + recv(900) + eager(b'y' * 800) +
        recv(900) + bare(b'else', 2) + bare(b'z') + recv(9, 2),
        'valid-bare-expected-large': start(2) + recv(3000, 2) + recv(3000) + large + bare(b'x', 2),
        'valid-bare-sent': start(1) + send(900) * 3 + send_now(900) + recv(1) + bare(b'x') + send(1020),
        'valid-bare-many': flags + bare(b'x' * 1000) * 40 + recv(1000) * 40,
        'valid-now-bare': flags + now(900, b'x' * 50, kind=6) + recv(900),
        'bad-bare-credit': flags + recv(900) + bare(b'x' * 900) + credit(1),
        'valid-eager-many': flags + eager(b'x' * 1000, odd=250) * 2 + recv(1000) * 40,
        'valid-now': flags + now(10, b'x' * 10) + now(10, b'y') + now(0, b'') + now(9, b'a', 7) * 90,
        'valid-now-other': flags + now(10, b'x' * 10, 1, 2) + recv(10, 2) + now(10, b'y'),
        'valid-now-long': flags + now(3, b'x' * 10) + recv(3), 'valid-now-kept': flags +
        eager(b'early') + now(5, b'late') + recv(5) + recv(5),
        'valid-now-announced': flags + now(10, b'', kind=2),
        'valid-send-now': flags + now(10, b'x') + send(5) + send_now(10) + send_now(1000) * 300 + credit(74),
        'bad-now-length': flags + now(900, b'x' * 10, kind=129, total=50),
        'bad-now-kind': flags + now(10, b'', kind=7), 'bad-now-data': flags + now(10, b'x', kind=4),
        'any-announced-absurd': flags + recv(10) + announce(65535, odd=255) + data(1024),
        'valid-credit': start(4) + (recv(1000) + eager(b'x' * 900)) * 8,
        'valid-credit-now': start(4) + now(900, b'x' * 900) * 8, 'valid-credit-full': start(4 + 32) +
        (recv(1000) + eager(b'x' * 900)) * 8 + recv(1, 5) * 8,
        'valid-posted-shared': start(2 + 8) + recv(3000) + announce(2500) + data(576) * 4 + data(196),
        'valid-posted-full': start(2 + 32) + recv(3000) + announce(2500) + recv(1, 5) * 3 + data(1024) +
        recv(1, 5) + data(1024) + data(452), 'valid-posted-withdrawn': start(2) + recv(3000) + announce(2500) +
        data(1024) + u8(other) + u16(900) + u8(1),
        'valid-posted-past-caches': start(2 + 8, more=64) + recv(3000) + announce(2500) + eager(b'z' * 900) +
        data(576) * 4 + data(196) + recv(900),
        'valid-targets': start(8, more=16) + send(10) + send(900) + send(3500) + ready + send_now(20) +
        recv(1, 5) * 4, 'valid-targets-sockets': start(0, more=16) + send(10) + send(900) + send(3500) + ready,
        'bad-small-budget': start(4) + eager(b'x' * 1000) * 5,
        'valid-shared': start(8) + recv(3000) + announce(2500) + data(576) * 4 + data(196),
        'bad-shared-piece': start(8) + recv(3000) + announce(2500) + data(1024),
        'valid-shared-now': start(8) + now(10, b'x' * 10) + now(10, b'', kind=65) + recv(5) + now(9, b'a'),
        'valid-shared-send': start(8 + 16) + send(10) + send(900) + send(3000) + ready + recv(1, 5) * 3,
        'valid-full': start(1 + 32 + 64) + send(10) + send(900) + send(3500) + recv(1, 5) * 9 + ready +
        recv(1, 5) * 40, 'valid-full-copied': start(32) + (recv(9, 5) + send(10) + send(900)) * 2 + send(3500) +
        recv(1, 5) * 9 + ready + recv(1, 5) * 20, 'valid-full-ready': start(32) +
        (recv(3000) + announce(2500)) * 3 + data(1024) + data(1024) + data(452) + recv(1, 5) * 4,
    }


def pmi1():
    good = (b'cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n'
            b'cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n'
            b'cmd=my_kvsname kvsname=kvs_1_0\ncmd=put_result rc=0 msg=success\ncmd=barrier_out\n'
            b'cmd=get_result rc=0 msg=success value=tcp://h:1\n')
    return {
        'valid': good + b'cmd=finalize_ack\n', 'valid-no-goodbye': good,
        'valid-blanks': good.replace(b' ', b'   '),
        'bad-empty': b'', 'bad-cut': good[:-4], 'bad-order': good[57:],
        'bad-nul': good.replace(b'kvs_', b'k\0s_'),
        'bad-refused': good.replace(b'rc=0', b'rc=1', 1),
        'bad-put': good.replace(b'put_result rc=0', b'put_result rc=2'),
        'bad-max': good.replace(b'keylen_max=64', b'keylen_max=0'),
        'bad-max-short': good.replace(b'keylen_max=64', b'keylen_max=2'),
        'bad-max-absurd': good.replace(b'keylen_max=64', b'keylen_max=99999999999999999999999999999'),
        'bad-name': good.replace(b'kvs_1_0', b'n' * 300),
        'bad-value': good.replace(b'tcp://h:1', b'v' * 64),
        'bad-line': b'x' * 9000, 'bad-text': b'HTTP/1.1 400 Bad Request\r\n\r\n',
    }


def member():
    good = 'member 3 joined 4 4711 4700 123456 4026531836 9c2ba577-eacd-4ede-8a84-137a3c63c4a3 1763640000 node7'
    job = 'job 0123456789abcdef '
    valid = [good, good.replace('joined', 'left'), job + good, good.replace('node7', '-'),
             'refused 14 1 store file /x is left over', 'refused 2 0 ', 'refused 9 7 a\x01b',
             good + ' wire=8', good + ' wire=2147483647 id=a', good + ' id=77.0', job + good + ' id=x', good + ' later=1 id=' + 'n' * 64 + ' x==',
             good + ' later=', good + ' clock=1234567890', job + good + ' wire=8 clock=0',
             good + ' timens=4026531834']
    bad = ['', 'member', good[:-6], good + ' more', good.replace('joined', 'there'),
           good.replace('member 3', 'member 0'), good.replace('member 3', 'member 9223372036854775807'),
           good.replace(' 4 ', ' 0 ', 1), good.replace('4711', '-1'), good.replace('4711', '99999999999'),
           good.replace('node7', 'n' * 65), good.replace('9c2b', '9c2b' * 20), good.replace(' 3', '  3'),
           good.replace('node7', 'no\0de'), job, 'job 0123 ' + good, 'job 0123456789ABCDEF ' + good,
           'job ' + job + good, 'refused ', 'refused 1', 'refused 99 0 x', 'refused 0 0 x', 'refused 1 -1 x',
           'x' * 500, good + ' id=', good + ' id=' + 'n' * 65, good + ' id=a\x01b', good + ' =x',
           good + ' ', good + ' id=x ', good + ' wire=', good + ' wire=0', good + ' wire=-1',
           good + ' wire=2147483648', good + ' wire=8a',
           good + ' clock=', good + ' clock=-1', good + ' clock=12 ',
           good + ' timens=', good + ' timens=-1']
    return texts(valid, bad)


TARGETS = [member, url, launch, settings, address, failure, page, idx, file_log, store_server,
           store_client, auth, fifo, location, hello, control, tcp_frames, verbs, pmi1, p2p, collective]


def main():
    corpus, findings = sys.argv[1], sys.argv[2:]
    total = 0
    for target in TARGETS:
        folder = os.path.join(corpus, target.__name__)
        os.makedirs(folder, exist_ok=True)
        seeds = target()
        for name in os.listdir(folder):
            if name not in seeds:
                os.remove(os.path.join(folder, name))
        for name, data in seeds.items():
            with open(os.path.join(folder, name), 'wb') as f:
                f.write(data)
            total += len(data)
    for path in findings:
        shutil.copy(path, os.path.join(corpus, os.path.basename(os.path.dirname(path))))
    print(f'{len(TARGETS)} targets, {total} bytes')


if __name__ == '__main__':
    sys.exit(main())
