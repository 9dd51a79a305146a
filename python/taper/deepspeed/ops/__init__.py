"""deepspeed.ops: optimisers under DeepSpeed's names."""
