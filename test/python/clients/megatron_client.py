# SPDX-License-Identifier: BSD-3-Clause
"""Megatron-core: its tensor-parallel linear layers and cross entropy on the CPU."""
import megatron.core
import torch
import torch.distributed as dist
from megatron.core import ModelParallelConfig, parallel_state, tensor_parallel

import common

dist.init_process_group('gloo')
parallel_state.initialize_model_parallel(tensor_model_parallel_size=dist.get_world_size())
config = ModelParallelConfig(tensor_model_parallel_size=dist.get_world_size(), use_cpu_initialization=True,
                             params_dtype=torch.float32, perform_initialization=True)
torch.manual_seed(5)
init = torch.nn.init.xavier_normal_
up = tensor_parallel.ColumnParallelLinear(common.WIDTH, 16, config=config, init_method=init, gather_output=False)
down = tensor_parallel.RowParallelLinear(16, common.WIDTH, config=config, init_method=init, bias=True,
                                         input_is_parallel=True, skip_bias_add=False)
last = tensor_parallel.ColumnParallelLinear(common.WIDTH, 16, config=config, init_method=init, gather_output=False)
x, _ = common.dataset()[:4]
hidden = torch.relu(up(x)[0])
logits = last(down(hidden)[0])[0]
loss = tensor_parallel.vocab_parallel_cross_entropy(logits.unsqueeze(1), torch.tensor([[1], [5], [9], [14]])).mean()
loss.backward()
common.report(megatron.core.__version__, [loss, *(p.grad for layer in (up, down, last) for p in layer.parameters())])
dist.destroy_process_group()
