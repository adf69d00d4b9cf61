"""Device, precision, quantisation and compilation of models, and freeing of device memory."""

from __future__ import annotations

import gc
from typing import Any

from ...queries.expert import ExpertDown


def resolve_device_and_dtype(torch: Any, device: str, dtype: str) -> tuple[Any, Any]:
    """Device and dtype, `auto` resolved. Raises `ExpertDown` for an unknown dtype."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    resolved = torch.device(device) if device != "auto" else accelerator or torch.device("cpu")
    name = dtype if dtype != "auto" else "float32" if resolved.type == "cpu" else "bfloat16"
    kind = getattr(torch, name, None)
    if not isinstance(kind, torch.dtype):
        raise ExpertDown(f"dtype {dtype!r} is no torch dtype: give auto, float32, bfloat16 or float16")
    return resolved, kind


def quantization_config(transformers: Any, method: str, dtype: Any) -> Any:
    """transformers' configuration for bitsandbytes. Raises `ExpertDown` if it is not installed."""
    if not transformers.utils.is_bitsandbytes_available():
        raise ExpertDown(f"quantisation {method} needs bitsandbytes: pip install 'editcritic[quantised]'")
    if method == "int8":
        return transformers.BitsAndBytesConfig(load_in_8bit=True)
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=method, bnb_4bit_compute_dtype=dtype, bnb_4bit_use_double_quant=True
    )


def patch_int8_kernel(model: Any) -> None:
    """Disable bitsandbytes' AVX-512 kernel for layers that it does not support, as in Qwen2.5-VL's vision tower.

    It needs outputs in multiples of 32 and inputs in multiples of a weight block. Other layers use the generic path,
    which dequantises the weights for each product.
    """
    from bitsandbytes.nn import Linear4bit

    for layer in model.modules():
        if isinstance(layer, Linear4bit) and (layer.out_features % 32 or layer.in_features % layer.weight.blocksize):
            layer.support_avx512bf16_for_cpu = False


def compile_layers(model: Any) -> None:
    """Compile each layer of a stack in place; equal layers share one compilation."""
    import torch

    for stack in [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]:
        for layer in stack:
            layer.compile()


def import_libraries() -> tuple[Any, Any]:
    """torch and transformers. Raises `ExpertDown` if one is not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ExpertDown(f"{error.name} is not installed: pip install 'editcritic[hf]'") from error
    return torch, transformers


def empty_device_cache() -> None:
    """Return cached memory to the device."""
    import torch

    gc.collect()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()
