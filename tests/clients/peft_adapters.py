"""peft: LoRA on a small Llama: two steps, merging, saving and loading."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from show import show
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=50)
base = LlamaForCausalLM(config)
start = {name: value.clone() for name, value in base.state_dict().items()}
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
ids = torch.arange(24).reshape(2, 12) % 50
optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
losses = []
for _ in range(3):
    optimiser.zero_grad()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
model.eval()
logits = model(ids).logits
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    fresh = LlamaForCausalLM(config)
    fresh.load_state_dict(start)
    again = PeftModel.from_pretrained(fresh, folder).eval()
    same = (again(ids).logits - logits).abs().max() < 1e-6
merged = model.merge_and_unload()
show(
    losses=losses,
    trainable=sum(p.numel() for p in again.parameters() if "lora" in p.__class__.__name__.lower() or p.requires_grad),
    logits=logits[0, 0],
    same=bool(same),
    merged=(merged(ids).logits - logits).abs().max() < 1e-4,
)
