# SPDX-License-Identifier: BSD-3-Clause
"""DeepSpeed: ZeRO stage 1 on the CPU, with gradient accumulation. The first run on a machine compiles an
extension of DeepSpeed, which takes minutes."""
import deepspeed
import torch
import torch.distributed as dist

import common

CONFIG = {'train_micro_batch_size_per_gpu': 4, 'gradient_accumulation_steps': 2, 'gradient_clipping': 1.0,
          'zero_optimization': {'stage': 1}, 'zero_allow_untested_optimizer': True,
          'zero_force_ds_cpu_optimizer': False}
model = common.model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
assert engine.zero_optimization_stage() == 1 and engine.optimizer.partition_count == [dist.get_world_size()]
losses = []
for step in range(8):
    x, y = common.dataset()[4 * dist.get_rank():4 * dist.get_rank() + 4]
    loss = torch.nn.functional.mse_loss(engine(x), y)
    engine.backward(loss)
    engine.step()
    dist.all_reduce(loss := loss.detach().clone())
    losses.append(loss)
common.report(deepspeed.__version__, [*engine.module.parameters(), *losses])
dist.destroy_process_group()
