"""The tiny editor's transformer: the interface of FLUX.1 Kontext's, small and quick to train."""

from __future__ import annotations

import math
from typing import Any

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.loaders.peft import PeftAdapterMixin
from diffusers.models.modeling_outputs import Transformer2DModelOutput
from diffusers.models.modeling_utils import ModelMixin
from torch import Tensor, nn
from torch.nn import functional

_WAVES = 32


class SceneEditTransformer(ModelMixin, ConfigMixin, PeftAdapterMixin):
    """Predicts an image as a change of its source, and from that the velocity for a flow-matching scheduler.

    Kontext concatenates the noisy patches and the source's. Here each noisy patch and its source patch form one token,
    and the network's output is added to the source: unchanged pixels need an output of zero. Words and patches attend
    to each other in one sequence; time, the pooled instruction and the mean of the noisy patches are added to every
    token.

    in_channels: numbers a patch. across: patches a side. The other arguments are those of `FluxTransformer2DModel`.
    """

    @register_to_config
    def __init__(
        self,
        in_channels: int = 192,
        across: int = 4,
        num_layers: int = 6,
        num_attention_heads: int = 3,
        attention_head_dim: int = 64,
        joint_attention_dim: int = 128,
        pooled_projection_dim: int = 64,
        guidance_embeds: bool = False,
    ) -> None:
        super().__init__()
        width = num_attention_heads * attention_head_dim
        self.patches = nn.Linear(2 * in_channels, width)
        self.words = nn.Linear(joint_attention_dim, width)
        self.row = nn.Parameter(0.1 * torch.randn(across, width))
        self.column = nn.Parameter(0.1 * torch.randn(across, width))
        self.all = nn.Sequential(
            nn.Linear(2 * _WAVES + pooled_projection_dim + in_channels, 2 * width),
            nn.SiLU(),
            nn.Linear(2 * width, width),
        )
        self.blocks = nn.ModuleList(_Block(width, num_attention_heads, num_layers) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, in_channels)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        pooled_projections: Tensor,
        timestep: Tensor,
        img_ids: Tensor | None = None,
        txt_ids: Tensor | None = None,
        guidance: Tensor | None = None,
        joint_attention_kwargs: dict[str, Any] | None = None,
        return_dict: bool = True,
    ) -> Transformer2DModelOutput | tuple[Tensor]:
        """The velocity, noise minus image, of the noisy patches: (B, N, in_channels).

        hidden_states: (B, 2 N, in_channels), noisy patches and then the source's, row by row. timestep: sigma in
        (0, 1], (B,). Arguments with a default are ignored: pipelines pass them.
        """
        count = self.config.across**2
        if hidden_states.shape[1] != 2 * count:
            raise ValueError(
                f"got {hidden_states.shape[1]} patches: expected {count} noisy ones and {count} of the source, "
                "for one image and one source of the training size"
            )
        noisy, source = hidden_states[:, :count], hidden_states[:, count:]
        clean = self.clean(noisy, source, encoder_hidden_states, pooled_projections, timestep)
        velocity = (noisy - clean) / timestep.clamp(min=1e-3)[:, None, None]
        return Transformer2DModelOutput(sample=velocity) if return_dict else (velocity,)

    def clean(self, noisy: Tensor, source: Tensor, words: Tensor, pooled: Tensor, sigma: Tensor) -> Tensor:
        """The predicted clean patches, (B, N, in_channels)."""
        count, across = noisy.shape[1], self.config.across
        places = (self.row[:, None] + self.column[None]).view(across**2, -1)
        mean = noisy.mean(dim=1) * math.sqrt(count)  # of noise: of standard deviation 1 again
        every = self.all(torch.cat([_waves(sigma), pooled, mean], dim=1).to(noisy.dtype))
        tokens = torch.cat([self.patches(torch.cat([noisy, source], dim=2)) + places, self.words(words)], dim=1)
        tokens = tokens + every[:, None]
        for block in self.blocks:
            tokens = block(tokens)
        changes: Tensor = self.out(self.norm(tokens[:, :count]))
        return source + changes


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_qkv, self.to_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for last in (self.to_out, self.down):
            nn.init.normal_(last.weight, std=0.5 / math.sqrt(width * 1.5 * layers))
            nn.init.zeros_(last.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, length, width = tokens.shape
        split = self.to_qkv(self.norm1(tokens)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        # Attention in full precision: on CPUs its backward pass takes eight times as long in bfloat16.
        with torch.autocast(tokens.device.type, enabled=False):
            attended = functional.scaled_dot_product_attention(query.float(), key.float(), value.float())
        tokens = tokens + self.to_out(attended.transpose(1, 2).reshape(batch, length, width).to(tokens.dtype))
        output: Tensor = tokens + self.down(functional.relu(self.up(self.norm2(tokens))).square())
        return output


def _waves(sigma: Tensor) -> Tensor:
    """Cosines and sines of a noise level in [0, 1], (B, 2 * _WAVES)."""
    rates = 1000 ** (1 - torch.arange(_WAVES, device=sigma.device) / _WAVES)
    angles = sigma.float()[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=1)
