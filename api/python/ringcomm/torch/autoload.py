# SPDX-License-Identifier: BSD-3-Clause
"""The entry points. `import torch` calls load(): it must be cheap and must not raise."""
import logging
import os

NAME = 'ringcomm'
log = logging.getLogger('ringcomm.torch')


def _create(options, backend_options):
    from ringcomm.torch import group
    return group.create(options, backend_options)


def aliases():
    """Names that mean ringcomm, from RINGCOMM_TORCH_AS."""
    names = os.environ.get('RINGCOMM_TORCH_AS', '').replace(' ', '').lower()
    return [name for name in names.split(',') if name]


def _checked(name, taken):
    """The name that torch goes on with. Mixed strings with an alias are refused."""
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


def register():
    """Registers the backend with torch.distributed. Safe to repeat."""
    from torch.distributed import distributed_c10d
    Backend = distributed_c10d.Backend
    if NAME.upper() in Backend._plugins:
        return
    Backend.register_backend(NAME, _create, extended_api=True, devices=['cpu'])
    taken = aliases()
    if taken:
        _take_names(Backend, taken)


def load():
    """Entry point of the group torch.backends, called at the end of `import torch`."""
    try:
        import torch.distributed
        if torch.distributed.is_available():
            register()
    except Exception:  # noqa: BLE001: an exception would make `import torch` fail
        log.debug('ringcomm is not registered with torch.distributed', exc_info=True)
