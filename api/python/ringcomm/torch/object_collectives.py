# SPDX-License-Identifier: BSD-3-Clause
"""Object collectives that send pickled bytes in one operation.

The functions have the names and arguments of torch.distributed. torch's own turn every object into
tensors and lengths; these do not. group: a group of ringcomm, or None for the default one.
"""
from torch.distributed import distributed_c10d as c10d

from ringcomm import communicator


def _of(group):
    group = group or c10d._get_default_group()
    if getattr(group, '_comm', None) is None:
        raise ValueError('object_collectives: this is not a ringcomm group')
    return group, communicator.Communicator(group._comm)


def _root(group, root, group_root):
    if group_root is not None:
        return group_root
    return group._ranks.index(root)


def all_gather_object(object_list, obj, group=None):
    _, comm = _of(group)
    object_list[:] = comm.all_gather_objects(obj)


def gather_object(obj, object_gather_list=None, dst=0, group=None, group_dst=None):
    group, comm = _of(group)
    gathered = comm.gather_objects(obj, _root(group, dst, group_dst))
    if gathered is not None:
        object_gather_list[:] = gathered


def broadcast_object_list(object_list, src=0, group=None, device=None, group_src=None):
    group, comm = _of(group)
    root = _root(group, src, group_src)
    object_list[:] = comm.broadcast_object(list(object_list) if comm.rank == root else None, root)


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=0,
                        group=None, group_src=None):
    group, comm = _of(group)
    root = _root(group, src, group_src)
    scatter_object_output_list[0] = comm.scatter_objects(scatter_object_input_list, root)
