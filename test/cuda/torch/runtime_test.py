# SPDX-License-Identifier: BSD-3-Clause
"""An unmodified CUDA build of torch on the stand-in runtime: devices, copies, fills, streams, events, allocator, errors.

FAKECUDA_DEVICES=4 LD_PRELOAD=libcudart.so.13 TEST_TORCH_CUDA_PYTHON runtime_test.py. torch's wheels have no PTX,
so only copies, sets and fills run on the device.
"""
import os
import threading
import time

import torch

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
         torch.int64, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]


def bits(tensor):
    return tensor.cpu().contiguous().flatten().view(torch.uint8)


def devices():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 4
    names = [torch.cuda.get_device_name(i) for i in range(4)]
    assert names == [f'PTX interpreter {i}' for i in range(4)], names
    properties = torch.cuda.get_device_properties(3)
    assert (properties.major, properties.minor, properties.multi_processor_count) == (9, 0, 4), properties
    assert torch.cuda.current_device() == 0 and torch.cuda.can_device_access_peer(0, 3)
    with torch.cuda.device(2):
        assert torch.cuda.current_device() == 2 and torch.empty(1, device='cuda').device.index == 2
    unused, total = torch.cuda.mem_get_info()
    assert 0 < unused <= total


def copies():
    values = torch.arange(100000, dtype=torch.float32)
    for device in range(4):
        on_device = values.cuda(device)
        assert on_device.is_cuda and on_device.device.index == device
        assert torch.equal(on_device.cpu(), values)
        assert torch.equal(on_device.to(f'cuda:{(device + 1) % 4}').cpu(), values)  # a copy between devices
        assert torch.equal(on_device.clone().cpu(), values)
    assert torch.equal(values.cuda()[1000:2000].cpu(), values[1000:2000])
    pinned = values.pin_memory()
    assert pinned.is_pinned() and not values.is_pinned()
    on_device = pinned.cuda(non_blocking=True)
    back = torch.empty_like(values).pin_memory()
    back.copy_(on_device, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, values)
    assert values.cuda()[7].item() == 7.0


def fills():
    for dtype in TYPES:
        for count in (1, 3, 4, 1000, 300001):
            expected = torch.full((count,), 1, dtype=dtype)
            assert torch.equal(bits(torch.full((count,), 1, dtype=dtype, device='cuda')), bits(expected)), (dtype, count)
            assert not bits(torch.zeros(count, dtype=dtype, device='cuda:1')).any(), (dtype, count)
    tensor = torch.full((64,), 2.5, device='cuda:3')
    tensor[1:4].fill_(-1)  # not aligned to a vector
    expected = torch.full((64,), 2.5)
    expected[1:4] = -1
    assert torch.equal(tensor.cpu(), expected)
    assert torch.equal(torch.ones(3, 5, device='cuda').cpu(), torch.ones(3, 5))
    tensor.zero_()
    assert not tensor.cpu().any()


def streams():
    values = torch.arange(50000, dtype=torch.int64).pin_memory()
    side, other = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    assert begin.query()  # never recorded
    with torch.cuda.stream(side):
        begin.record()
        on_device = values.cuda(non_blocking=True)
        end.record()
    other.wait_event(end)
    with torch.cuda.stream(other):
        on_device.record_stream(other)
        copy = on_device.clone()
    torch.cuda.current_stream().wait_stream(other)
    assert torch.equal(copy.cpu(), values)
    end.synchronize()
    assert begin.query() and end.query() and side.query()
    assert begin.elapsed_time(end) >= 0
    assert other.priority < 0 <= side.priority
    assert not torch.cuda.is_current_stream_capturing()
    torch.cuda.synchronize(3)


def allocator():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    address = None
    for _ in range(3):
        tensor = torch.empty(5 << 20, dtype=torch.uint8, device='cuda')
        assert address in (None, tensor.data_ptr())  # the cached block
        address = tensor.data_ptr()
        assert torch.cuda.memory_allocated() >= 5 << 20
        del tensor
    assert torch.cuda.memory_reserved() > before
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == before
    assert torch.cuda.memory_stats()['num_ooms'] == 0
    many = [torch.zeros(1 << 16, device=f'cuda:{i % 4}') for i in range(64)]
    assert all(not tensor.cpu().any() for tensor in many)


def threads():
    failed = []

    def work(device):
        try:
            torch.cuda.set_device(device)
            for i in range(50):
                tensor = torch.full((1000,), float(i), device='cuda')
                assert tensor.device.index == device and tensor.cpu().eq(i).all()
        except Exception as error:  # pylint: disable=broad-except
            failed.append(error)

    running = [threading.Thread(target=work, args=(i % 4,)) for i in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failed, failed
    assert torch.cuda.current_device() == 0


def errors():
    for call in (lambda: torch.zeros(4, device='cuda') + 1, lambda: torch.zeros(2, 4, device='cuda')[:, ::2].fill_(1)):
        try:
            call()
        except RuntimeError as error:
            assert 'cudaErrorNoKernelImageForDevice' in str(error), error
        else:
            raise AssertionError('a kernel without PTX ran')
        assert not torch.zeros(4, device='cuda').cpu().any()  # the error is gone
    try:
        torch.cuda.set_device(9)
    except RuntimeError as error:
        assert 'cudaErrorInvalidDevice' in str(error), error
    else:
        raise AssertionError('device 9')


for case in (devices, copies, fills, streams, allocator, threads, errors):
    start = time.monotonic()
    case()
    print(f'{case.__name__}: {time.monotonic() - start:.1f} s', flush=True)
print(f'torch {torch.__version__}, CUDA {torch.version.cuda}, process {os.getpid()}')
