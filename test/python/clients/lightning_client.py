# SPDX-License-Identifier: BSD-3-Clause
"""Lightning: its DDP strategy on the CPU, under the launcher's environment."""
import tempfile

import lightning
import torch
from lightning.pytorch.plugins.environments import LightningEnvironment
from lightning.pytorch.strategies import DDPStrategy

import common


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = common.model()

    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.log('loss', loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_end(self):
        common.report(lightning.__version__, self.parameters())


class Launched(LightningEnvironment):
    """The launcher has started the processes. LightningEnvironment would start its own on node 0."""

    def __init__(self):
        super().__init__()
        import os
        self._rank, self._size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])

    creates_processes_externally = property(lambda self: True)
    global_rank = local_rank = lambda self: self._rank
    world_size = lambda self: self._size  # noqa: E731
    node_rank = lambda self: 0  # noqa: E731
    set_global_rank = set_world_size = lambda self, value: None


environment = Launched()
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(accelerator='cpu', devices=environment.world_size(), max_epochs=2, logger=False,
                                strategy=DDPStrategy(process_group_backend='gloo', cluster_environment=environment),
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, default_root_dir=folder)
    trainer.fit(Module(), torch.utils.data.DataLoader(common.dataset(), batch_size=4))
