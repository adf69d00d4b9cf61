"""Limits of a judge server: size of one request, and of all requests together."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one request; larger ones are refused with 413 before memory is allocated.

    max_samples; max_body_bytes. max_pixels: of all its images together, decoded, and max_image_pixels of each; three
    bytes per pixel are held until the response. max_images: whatever their size. max_list_length: earlier turns,
    sources, or operations of a sample. max_json_values: values in its JSON. max_text_length: characters of a string in
    it.

    Limits of the server; above them it answers 503. max_queued_samples: accepted and not answered. max_queued_bytes:
    of bodies and decoded images together. max_in_flight: samples in the engine at a time; samples beyond it are not
    started if their client disconnects. decode_threads: threads that decode images, of each lane (`decoding_lanes`); an
    image of more than max_thread_pixels is decoded in a process of its own, which ends where it takes too long or too
    much memory.

    idempotent_scores: number of latest scores kept for requests that are repeated with their key.
    """

    max_samples: int = 1024
    max_body_bytes: int = 256 * MIB
    max_pixels: int = 256_000_000
    max_image_pixels: int = 36_000_000
    max_images: int = 8192
    max_list_length: int = 64
    max_json_values: int = 1_000_000
    max_text_length: int = 100_000
    max_queued_samples: int = 8192
    max_queued_bytes: int = 4096 * MIB
    max_in_flight: int = 256
    max_thread_pixels: int = 1_000_000
    decode_threads: int = 2
    idempotent_scores: int = 16_384

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if getattr(self, name) < (0 if name == "idempotent_scores" else 1):
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_queued_samples < self.max_samples:
            raise ValueError(
                f"max_queued_samples={self.max_queued_samples} must be at least max_samples={self.max_samples}"
            )
        if self.max_queued_bytes < self.max_body_bytes + 3 * self.max_pixels:
            raise ValueError(
                f"max_queued_bytes={self.max_queued_bytes} must hold one request: a body of "
                f"max_body_bytes={self.max_body_bytes} and three bytes for each of max_pixels={self.max_pixels}"
            )
