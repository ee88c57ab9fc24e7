# SPDX-License-Identifier: BSD-3-Clause
"""The two names that distributed_training.py imports from torchvision, over examples/mnist."""
import gzip
import pathlib

import torch

FOLDER = pathlib.Path(__file__).resolve().parents[3] / 'examples' / 'mnist'
IMAGES, IMAGE_HEADER, LABEL_HEADER = 640, 16, 8


class Transforms:
    """Images of datasets.MNIST are already normalized, so a transform does nothing."""

    @staticmethod
    def Compose(_steps):  # noqa: N802
        return None

    @staticmethod
    def ToTensor():  # noqa: N802
        return None

    @staticmethod
    def Normalize(_mean, _deviation):  # noqa: N802
        return None


class Datasets:
    @staticmethod
    def MNIST(_root, train, download, transform):  # noqa: N802
        del train, download, transform
        with gzip.open(FOLDER / 't10k-images-idx3-ubyte.gz') as file:
            raw = bytearray(file.read(IMAGE_HEADER + IMAGES * 784)[IMAGE_HEADER:])
        with gzip.open(FOLDER / 't10k-labels-idx1-ubyte.gz') as file:
            labels = file.read(LABEL_HEADER + IMAGES)[LABEL_HEADER:]
        images = torch.frombuffer(raw, dtype=torch.uint8).reshape(IMAGES, 1, 28, 28)
        images = (images.float() / 255 - 0.1307) / 0.3081
        return [(images[i], labels[i]) for i in range(IMAGES)]


datasets, transforms = Datasets, Transforms
