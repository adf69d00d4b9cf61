"""Pixels as latents: a lossless replacement for the autoencoder of a latent diffusion pipeline."""

from __future__ import annotations

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTinyOutput
from diffusers.models.autoencoders.vae import DecoderOutput
from diffusers.models.modeling_utils import ModelMixin
from torch.nn import functional


class PixelAutoencoder(ModelMixin, ConfigMixin):
    """Images (B, 3, H, W) in [-1, 1] to latents (B, 3 x scale^2, H / scale, W / scale), and back to the bit.

    At 32 px the blur of a real autoencoder would count as change. Pipelines derive the scale from
    `block_out_channels`: 2 ** (its length - 1).
    """

    @register_to_config
    def __init__(
        self,
        block_out_channels: tuple[int, ...] = (3, 12, 48),
        latent_channels: int = 48,
        scaling_factor: float = 1.0,
        shift_factor: float = 0.0,
    ) -> None:
        super().__init__()
        self.scale = 2 ** (len(block_out_channels) - 1)
        self.register_buffer("nothing", torch.zeros(1))  # pipelines read device and dtype of every component

    def encode(self, x: torch.Tensor, return_dict: bool = True) -> AutoencoderTinyOutput | tuple[torch.Tensor]:
        latents = functional.pixel_unshuffle(x, self.scale)
        return AutoencoderTinyOutput(latents=latents) if return_dict else (latents,)

    def decode(self, z: torch.Tensor, return_dict: bool = True) -> DecoderOutput | tuple[torch.Tensor]:
        pictures = functional.pixel_shuffle(z, self.scale)
        return DecoderOutput(sample=pictures) if return_dict else (pictures,)
