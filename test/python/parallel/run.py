#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs torch's parallel libraries over gloo and over ringcomm, and compares their results.

    PYTHONPATH=build/api/python test/python/parallel/run.py --ranks 2
    PYTHONPATH=build/api/python test/python/parallel/run.py --ranks 4 --only 'fsdp*'

This process imports torch once and forks the ranks. A case is a function of a module below that returns its
results. Each rank must return the same results over both backends.
"""
import argparse
import datetime
import faulthandler
import fnmatch
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import warnings

os.environ['OMP_NUM_THREADS'] = '1'  # the parent has no threads when it forks
os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
warnings.simplefilter('ignore')
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.utils import _pytree  # noqa: E402

import compiled  # noqa: E402
import data_parallel  # noqa: E402
import dtensor  # noqa: E402
import fsdp  # noqa: E402
import pipeline  # noqa: E402
from ringcomm.torch import autoload  # noqa: E402

MODULES = (data_parallel, fsdp, dtensor, compiled, pipeline)
TIMEOUT = datetime.timedelta(seconds=60)
EXIT_GRACE_S = 5  # for other ranks, after one has failed


def cases(pattern, ranks):
    """(name, function) of each case that can run with this number of ranks."""
    found = {case.__name__: case for module in MODULES for case in module.CASES
             if ranks >= getattr(case, 'ranks', 2)}
    return [(name, case) for name, case in found.items() if fnmatch.fnmatchcase(name, pattern)]


# ---- In a rank ---------------------------------------------------------------------------------------

def run_rank(backend, rank, args, folder):
    """Writes the results of all cases, or of those before the first failure."""
    dist.init_process_group(backend, init_method=f'file://{folder}/{backend}-store', rank=rank,
                            world_size=args.ranks, timeout=TIMEOUT)
    assert dist.get_backend() == backend
    results, status = {}, 0
    for name, case in cases(args.only, args.ranks):
        warnings.simplefilter('ignore')  # torch._dynamo changes it
        faulthandler.dump_traceback_later(args.limit, exit=True)
        torch.manual_seed(11)
        began = time.monotonic()
        try:
            results[name] = (case(), time.monotonic() - began)
        except Exception:  # noqa: BLE001: reported with the rank and the case
            print(f'{backend}, rank {rank}, {name}:\n{traceback.format_exc()}', flush=True)
            status = 1
            break
    faulthandler.cancel_dump_traceback_later()
    torch.save(results, f'{folder}/{backend}-{rank}')
    if status == 0:
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(status)


# ---- In the parent -----------------------------------------------------------------------------------

def run_backend(backend, args, folder):
    """True if all ranks have finished."""
    ranks = [multiprocessing.get_context('fork').Process(target=run_rank, args=(backend, r, args, folder))
             for r in range(args.ranks)]
    for rank in ranks:
        rank.start()
    running = {rank.sentinel: rank for rank in ranks}
    while running and not any(rank.exitcode for rank in ranks):
        for sentinel in multiprocessing.connection.wait(list(running)):
            running.pop(sentinel).join()
    for rank in ranks:
        rank.join(EXIT_GRACE_S)
        rank.kill()
        rank.join()
    if any(rank.exitcode for rank in ranks):
        print(f'{backend}: exit statuses {[rank.exitcode for rank in ranks]}')
    return not any(rank.exitcode for rank in ranks)


def difference(found, expected):
    """An error text, or None. Sums of several ranks may have another order."""
    values, shape = _pytree.tree_flatten(found)
    wanted, wanted_shape = _pytree.tree_flatten(expected)
    if shape != wanted_shape:
        return f'results of another form: {shape}, gloo has {wanted_shape}'
    for i, (value, want) in enumerate(zip(values, wanted)):
        try:
            torch.testing.assert_close(value, want)
        except AssertionError as error:
            return f'result {i} of {len(values)}: {error}'
    return None


def compare(args, folder):
    """The number of different cases."""
    bad = 0
    results = [{backend: torch.load(f'{folder}/{backend}-{rank}', weights_only=False)
                for backend in ('gloo', 'ringcomm')} for rank in range(args.ranks)]
    for name, case in cases(args.only, args.ranks):
        assert _pytree.tree_leaves(results[0]['gloo'][name][0]), f'{name} returns nothing to compare'
        judge = getattr(case, 'difference', difference)
        texts = [judge(of['ringcomm'][name][0], of['gloo'][name][0]) for of in results]
        times = ', '.join(f'{backend} {results[0][backend][name][1]:.2f} s' for backend in ('gloo', 'ringcomm'))
        print(f'{"as gloo" if not any(texts) else "DIFFERS":<8} {name} ({times})')
        bad += any(texts)
        for rank, text in enumerate(texts):
            if text:
                print(f'    rank {rank}: {text}')
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--limit', type=float, default=90, metavar='SECONDS', help='for each case')
    parser.add_argument('--only', default='*', metavar='PATTERN', help='cases by name, with * and ?')
    args = parser.parse_args()
    if not cases(args.only, args.ranks):
        parser.error(f'--only {args.only}: no case has such a name')
    autoload.register()
    with tempfile.TemporaryDirectory() as folder:
        bad = not all([run_backend(backend, args, folder) for backend in ('gloo', 'ringcomm')])
        bad = bad or compare(args, folder)
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
