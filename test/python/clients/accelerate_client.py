# SPDX-License-Identifier: BSD-3-Clause
"""Hugging Face Accelerate: DistributedDataParallel on the CPU, with gathered losses."""
import accelerate
import torch

import common

accelerator = accelerate.Accelerator(cpu=True)
model = common.model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(common.dataset(), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach().reshape(1)))
accelerator.wait_for_everyone()
common.report(accelerate.__version__, [*model.parameters(), *losses])
accelerator.end_training()
