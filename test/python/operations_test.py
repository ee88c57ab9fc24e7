#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares every operation of ringcomm.Communicator with values computed here, on any number of ranks."""
import array
import pickle
import threading

import ringcomm
from ringcomm import _core

comm = ringcomm.init()
me, size = comm.rank, comm.size
ranks = range(size)


def floats(*values):
    return array.array('f', values)


def same(found, expected):
    assert list(found) == list(expected), f'rank {me}: {list(found)}, expected {list(expected)}'


def block(rank, n=3):
    """The input of a rank, different in each element and rank."""
    return [100 * rank + i for i in range(n)]


def reductions():
    send, recv = floats(*block(me)), floats(0, 0, 0)
    total = [sum(column) for column in zip(*(block(r) for r in ranks))]
    comm.all_reduce(send, recv)
    same(recv, total)
    same(send, block(me))
    comm.all_reduce(send)
    same(send, total)
    comm.all_reduce(floats(*block(me)), recv, 'max')
    same(recv, block(size - 1))
    recv = floats(-1, -1, -1)
    comm.reduce(floats(*block(me)), recv if me == size - 1 else None, root=size - 1)
    same(recv, total if me == size - 1 else [-1] * 3)
    recv = floats(0)
    comm.reduce_scatter(floats(*[me + 10 * r for r in ranks]), recv)
    same(recv, [sum(ranks) + 10 * me * size])
    recv = floats(0, 0)
    comm.scan(floats(me, 1), recv)
    same(recv, [sum(range(me + 1)), me + 1])
    recv = floats(-1)
    comm.exscan(floats(me), recv)
    same(recv, [-1] if me == 0 else [sum(range(me))])


def moves():
    buffer = floats(*block(me))
    comm.broadcast(buffer, size - 1)
    same(buffer, block(size - 1))
    recv = floats(*[0] * 3 * size)
    comm.all_gather(floats(*block(me)), recv)
    same(recv, [x for r in ranks for x in block(r)])
    recv = floats(*[-1] * 3 * size)
    comm.gather(floats(*block(me)), recv if me == 0 else None)
    same(recv, [x for r in ranks for x in block(r)] if me == 0 else [-1] * 3 * size)
    recv = floats(0, 0, 0)
    comm.scatter(floats(*[x for r in ranks for x in block(r)]) if me == 0 else None, recv)
    same(recv, block(me))
    recv = floats(*[0] * size)
    comm.all_to_all(floats(*[10 * me + r for r in ranks]), recv)
    same(recv, [10 * r + me for r in ranks])
    comm.barrier()


def uneven():
    counts = [r + 1 for r in ranks]
    all_blocks = [x for r in ranks for x in block(r, r + 1)]
    recv = floats(*[0] * sum(counts))
    comm.all_gather_v(floats(*block(me, me + 1)), recv, counts)
    same(recv, all_blocks)
    recv = floats(*[0] * (me + 1))
    comm.scatter_v(floats(*all_blocks) if me == 0 else None, counts if me == 0 else None, recv)
    same(recv, block(me, me + 1))
    recv = floats(*[0] * sum(counts))
    comm.gather_v(floats(*block(me, me + 1)), recv if me == 0 else None,
                  counts if me == 0 else None)
    same(recv, all_blocks if me == 0 else [0] * sum(counts))
    recv = floats(*[0] * (me + 1))
    comm.reduce_scatter_v(floats(*all_blocks), counts, recv)
    same(recv, [size * x for x in block(me, me + 1)])
    # Rank r sends r + 1 elements to each rank, in reverse order of ranks.
    send = floats(*[x for r in reversed(ranks) for x in [1000 * me + r] * (me + 1)])
    displs = [(size - 1 - r) * (me + 1) for r in ranks]
    recv = floats(*[0] * sum(counts))
    comm.all_to_all_v(send, [me + 1] * size, recv, counts, send_displs=displs)
    same(recv, [1000 * r + me for r in ranks for _ in range(r + 1)])


def messages():
    right, left = (me + 1) % size, (me - 1) % size
    recv = floats(*[0] * 5)
    source, tag, came = comm.sendrecv(floats(*block(me)), right, recv, left, send_tag=7)
    assert (source, tag, came) == (left, 7, 12), (source, tag, came)
    same(recv, block(left) + [0, 0])
    work = comm.recv(recv, left, async_op=True)
    comm.send(floats(me, 8), right, 3)
    assert work.wait() and work.message() == (left, 3, 8)
    same(recv[:2], [left, 8])
    assert comm.iprobe(tag=12345) is None


def threads():
    """One thread waits in a receive while another sends: neither holds the interpreter lock."""
    recv = floats(0)
    waiter = threading.Thread(target=lambda: comm.recv(recv, (me - 1) % size, 99))
    waiter.start()
    comm.send(floats(me), (me + 1) % size, 99)
    waiter.join()
    same(recv, [(me - 1) % size])


def works():
    arrays = [floats(*block(me)) for _ in range(20)]
    pending = [comm.all_reduce(a, async_op=True) for a in arrays]
    assert _core.wait_all(pending)
    for a in arrays:
        same(a, [sum(column) for column in zip(*(block(r) for r in ranks))])
    assert all(work.test() and work.error() is None for work in pending)
    done = []
    work = comm.barrier(async_op=True)
    work.on_complete(done)
    assert _core.next_completion(5000) is done


def several():
    """Several collectives with one work, and several transfers with one work; buffers by address."""
    arrays = [floats(*block(me)), floats(me, 1)]
    parts = [(a.buffer_info()[0], a.buffer_info()[0], len(a), _core.DTYPES['float32'][0])
             for a in arrays]
    for mode in 0, 1:
        arrays[0][:], arrays[1][:] = floats(*block(me)), floats(me, 1)
        work = _core.coalesced(comm.core, _core.COLLECTIVES['all_reduce'], parts, _core.OPS['sum'],
                               0, arrays, mode, 0)
        assert work is None if mode == 0 else work.wait()
        same(arrays[0], [sum(column) for column in zip(*(block(r) for r in ranks))])
        same(arrays[1], [sum(ranks), size])
    send, recv = floats(me), floats(-1)
    transfers = [(3, recv.buffer_info()[0], 1, 9, (me - 1) % size, 5),
                 (1, send.buffer_info()[0], 1, 9, (me + 1) % size, 5)]
    assert _core.batch(comm.core, transfers, (send, recv), 0, 0) is None
    same(recv, [(me - 1) % size])
    refuse(TypeError, '8 arguments', lambda: _core.coalesced(comm.core))
    refuse(TypeError, 'a list is needed', lambda: _core.batch(comm.core, 7, None, 0, 0))


def objects():
    value = {'rank': me, 'text': 'x' * (1000 * me)}
    assert [v['rank'] for v in comm.all_gather_objects(value)] == list(ranks)
    found = comm.gather_objects(value, size - 1)
    assert found is None if me != size - 1 else [len(v['text']) for v in found] == [
        1000 * r for r in ranks]
    assert comm.broadcast_object(value if me == 0 else None) == {'rank': 0, 'text': ''}
    assert comm.scatter_objects([('to', r) for r in ranks] if me == 0 else None) == ('to', me)


def types():
    """Each type of the buffer protocol, by a sum and by a count that differs in bytes."""
    for code in 'bBhHiIlLqQfd':
        buffer = array.array(code, [me + 1, 2])
        comm.all_reduce(buffer)
        same(buffer, [sum(r + 1 for r in ranks), 2 * size])
    buffer = bytearray(b'\x01\x02') if me == 0 else bytearray(2)
    comm.broadcast(buffer)
    assert bytes(buffer) == b'\x01\x02'


def groups():
    mine = comm.split(me % 2, -me)
    assert mine.size == len([r for r in ranks if r % 2 == me % 2])
    assert mine.core.world_rank(0) == max(r for r in ranks if r % 2 == me % 2)
    buffer = floats(me)
    mine.all_reduce(buffer)
    same(buffer, [sum(r for r in ranks if r % 2 == me % 2)])
    mine.destroy()
    try:
        mine.barrier()
    except ValueError as error:
        assert 'destroyed' in str(error)
    else:
        raise AssertionError('a destroyed communicator was used')
    with comm.duplicate() as again:
        again.barrier()
    host = comm.split_hosts()
    host.set_spin(100)
    assert host.size == comm.local_size
    host.destroy()


def refuse(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), f'{words!r} is not in {error!s}'
    else:
        raise AssertionError(f'not refused: {words}')


def bad_arguments():
    a = floats(1, 2)
    refuse(ValueError, 'recv has 2 elements', lambda: comm.all_gather(floats(*range(3)), a))
    refuse(ValueError, 'C-contiguous', lambda: comm.all_reduce(memoryview(floats(1, 2, 3, 4))[::2]))
    refuse(ValueError, 'writable', lambda: comm.broadcast(b'text'))
    refuse(TypeError, 'array is needed', lambda: comm.all_reduce([1, 2]))
    refuse(TypeError, "call's type is", lambda: comm.all_reduce(a, array.array('d', [0, 0])))
    refuse(ValueError, 'op ', lambda: comm.all_reduce(a, op='total'))
    refuse(ValueError, 'entries', lambda: comm.all_gather_v(a, a, [1] * (size + 1)))
    refuse(ringcomm.Error, '', lambda: comm.broadcast(a, size))
    refuse(ringcomm.Error, 'band of float32', lambda: comm.all_reduce(a, op='band'))
    comm.barrier()  # none of these has sent anything


def memory():
    view = comm.core.mem_alloc(4096)
    view[:4] = b'abcd'
    comm.broadcast(view)
    address = _core.view(view)[0]
    comm.core.mem_free(address)


for case in (reductions, moves, uneven, messages, threads, works, several, objects, types, groups,
             bad_arguments, memory):
    case()
assert pickle.dumps(ringcomm.Error(-1, 'text')) is not None
comm.destroy()
print(f'rank {me}: every operation is right')
