"""transformers: six small families from configurations: loss and gradients, generation by all ways, a Trainer's steps,
saving and loading."""

import tempfile

import torch
from show import show
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

numbers = {}
ids = torch.arange(24).reshape(2, 12) % 50


def gradient(model):
    return sum(p.grad.double().square().sum() for p in model.parameters() if p.grad is not None).sqrt()


def trained(name, model, **inputs):
    loss = model(**inputs).loss
    loss.backward()
    numbers[f"{name}_loss"], numbers[f"{name}_gradient"] = loss, gradient(model)
    return model.eval()


torch.manual_seed(0)
small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50}
llama = trained("llama", LlamaForCausalLM(LlamaConfig(**small, num_key_value_heads=2)), input_ids=ids, labels=ids)
gpt2 = trained(
    "gpt2",
    GPT2LMHeadModel(
        GPT2Config(
            n_embd=32,
            n_layer=2,
            n_head=4,
            vocab_size=50,
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
            bos_token_id=0,
            eos_token_id=0,
        )
    ),
    input_ids=ids,
    labels=ids,
)
bert = trained(
    "bert",
    BertForSequenceClassification(BertConfig(**small, hidden_dropout_prob=0, attention_probs_dropout_prob=0)),
    input_ids=ids,
    labels=torch.tensor([0, 1]),
)
t5 = trained(
    "t5",
    T5ForConditionalGeneration(
        T5Config(
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            vocab_size=50,
            dropout_rate=0,
            decoder_start_token_id=0,
        )
    ),
    input_ids=ids,
    labels=ids,
)
vit = trained(
    "vit",
    ViTForImageClassification(
        ViTConfig(
            image_size=32,
            patch_size=8,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            hidden_dropout_prob=0,
            attention_probs_dropout_prob=0,
        )
    ),
    pixel_values=torch.randn(2, 3, 32, 32),
    labels=torch.tensor([0, 1]),
)
numbers["greedy"] = llama.generate(ids[:, :4], max_new_tokens=8, do_sample=False, pad_token_id=0)[:, 4:]
numbers["beams"] = gpt2.generate(ids[:, :4], max_new_tokens=8, num_beams=3, pad_token_id=0)[0]
torch.manual_seed(1)
numbers["sampled"] = gpt2.generate(ids[:1, :4], max_new_tokens=8, do_sample=True, top_k=10, pad_token_id=0)[0]
numbers["static"] = llama.generate(
    ids[:1, :4], max_new_tokens=8, do_sample=False, cache_implementation="static", pad_token_id=0
)[0]
numbers["t5_greedy"] = t5.generate(ids, max_new_tokens=6, do_sample=False)[0]
with tempfile.TemporaryDirectory() as folder:
    llama.save_pretrained(folder)
    numbers["same"] = torch.equal(LlamaForCausalLM.from_pretrained(folder)(ids).logits, llama(ids).logits)
    data = [{"input_ids": row, "labels": row} for row in ids.repeat(4, 1)]
    arguments = TrainingArguments(
        folder,
        max_steps=3,
        per_device_train_batch_size=4,
        report_to=[],
        learning_rate=1e-3,
        seed=3,
        use_cpu=True,
        disable_tqdm=True,
        logging_steps=1,
        save_strategy="no",
    )
    trainer = Trainer(llama.train(), arguments, train_dataset=data)
    trainer.train()
    numbers["trainer"] = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
show(**numbers)
