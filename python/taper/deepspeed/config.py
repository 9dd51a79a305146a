"""A configuration of DeepSpeed's: a dict or a JSON file, with the three batch sizes made to agree."""

import json
import os


class Config:
    def __init__(self, given, world):
        if isinstance(given, (str, os.PathLike)):
            with open(given, encoding="utf-8") as file:
                given = json.load(file)
        self.all = dict(given)
        self._batches(world)
        self.clip = float(self.all.get("gradient_clipping", 0.0))
        self.bf16, self.fp16 = self._on("bf16") or self._on("bfloat16"), self._on("fp16")
        if self.bf16 and self.fp16:
            raise ValueError("deepspeed: fp16 and bf16 modes cannot be simultaneously enabled")
        self.stage = int(self.all.get("zero_optimization", {}).get("stage", 0))
        if self.stage not in (0, 1, 2, 3):
            raise ValueError(f"deepspeed: zero_optimization.stage: expected 0 to 3, got {self.stage}")
        self.steps_per_print = self.all.get("steps_per_print", 0)

    def _on(self, name):
        part = self.all.get(name, {})
        enabled = part.get("enabled", False) if isinstance(part, dict) else part
        return enabled is True

    def _batches(self, world):
        def number(name):
            value = self.all.get(name)
            return None if value in (None, "auto") else int(value)

        whole, micro, steps = (
            number("train_batch_size"),
            number("train_micro_batch_size_per_gpu"),
            number("gradient_accumulation_steps"),
        )
        if whole is None and micro is None:
            raise AssertionError("Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided")
        if micro is None:
            micro = whole // world // (steps or 1)
        if steps is None:
            steps = whole // (micro * world) if whole is not None else 1
        whole = micro * steps * world if whole is None else whole
        if whole != micro * steps * world or not micro or not steps:
            raise AssertionError(
                "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
                f"gradient_acc_step * world_size {whole} != {micro} * {steps} * {world}"
            )
        self.train_batch_size, self.micro_batch, self.accumulation = whole, micro, steps
