# SPDX-License-Identifier: BSD-3-Clause
"""The entry points. `import torch` calls load(): it must be cheap and must not raise."""
import functools
import logging
import os
from datetime import timedelta

NAME = 'ringcomm'
log = logging.getLogger('ringcomm.torch')


def _create(options, backend_options):
    from ringcomm.torch import group
    return group.create(options, backend_options)


def aliases():
    """Aliases of ringcomm, from RINGCOMM_TORCH_AS."""
    names = os.environ.get('RINGCOMM_TORCH_AS', '').replace(' ', '').lower()
    return [name for name in names.split(',') if name]


def _checked(name, taken):
    """The name that torch uses. Mixed strings with an alias are rejected."""
    lower = name.lower()
    if lower in taken:
        log.info('RINGCOMM_TORCH_AS: backend "%s" is ringcomm', lower)
        return NAME
    parts = [pair.partition(':')[2] for pair in lower.split(',') if ':' in pair]
    for part in parts:
        if part in taken:
            raise ValueError(f'RINGCOMM_TORCH_AS: backend "{name}" names "{part}" for one device of '
                             f'several, which ringcomm cannot serve. Name "{part}" alone, or unset '
                             'RINGCOMM_TORCH_AS.')
    return name


def _take_names(Backend, taken):
    original = Backend.__new__

    def look_up(cls, name):
        return original(cls, _checked(name, taken) if isinstance(name, str) else name)

    Backend.__new__ = look_up


def _take_monitored_barrier(dist):
    """torch before 2.14 rejects groups whose name is not gloo's."""
    original, c10d = dist.monitored_barrier, dist.distributed_c10d

    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        of = c10d._get_default_group() if group is None else group
        if getattr(of, '_comm', None) is None:  # no member, or another backend
            return original(group, timeout, wait_all_ranks)
        if isinstance(timeout, float):
            timeout = timedelta(seconds=timeout)
        of.monitored_barrier(timeout, wait_all_ranks)

    functools.update_wrapper(monitored_barrier, original)
    c10d.monitored_barrier = dist.monitored_barrier = monitored_barrier


def register():
    """Registers the backend with torch.distributed. Safe to repeat."""
    import torch.distributed
    Backend = torch.distributed.Backend
    if NAME.upper() in Backend._plugins:
        return
    Backend.register_backend(NAME, _create, extended_api=True, devices=['cpu'])
    taken = aliases()
    if taken:
        _take_names(Backend, taken)
    if 'gloo' in taken:
        _take_monitored_barrier(torch.distributed)


def load():
    """Entry point of the group torch.backends, called at the end of `import torch`."""
    try:
        import torch.distributed
        if torch.distributed.is_available():
            register()
    except Exception:  # noqa: BLE001: an exception would make `import torch` fail
        log.debug('ringcomm is not registered with torch.distributed', exc_info=True)
