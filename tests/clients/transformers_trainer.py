"""transformers: a Trainer with evaluation, metrics, checkpoints that training goes on from, accumulated and clipped
gradients, gradient checkpointing, and a Seq2SeqTrainer that generates."""

import os
import tempfile

import torch
from show import show
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

torch.manual_seed(0)
ids = torch.randint(3, 50, (32, 10))
data = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0] % 2)} for row in ids]
config = BertConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    vocab_size=50,
    hidden_dropout_prob=0.1,
)
quiet = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "logging_steps": 1}


class Rates(TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_step_end(self, arguments, state, control, optimizer=None, **others):
        self.seen.append(optimizer.param_groups[0]["lr"])


def accuracy(predicted):
    return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


def trainer(folder, rates):
    torch.manual_seed(1)
    model = BertForSequenceClassification(config)
    arguments = TrainingArguments(
        folder,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=5e-3,
        seed=3,
        lr_scheduler_type="cosine",
        warmup_steps=2,
        max_grad_norm=0.5,
        eval_strategy="epoch",
        save_strategy="steps",
        save_steps=4,
        weight_decay=0.1,
        gradient_checkpointing=True,
        label_smoothing_factor=0.1,
        **quiet,
    )
    return Trainer(
        model, arguments, train_dataset=data[:24], eval_dataset=data[24:], compute_metrics=accuracy, callbacks=[rates]
    )


def logged(trained, name):
    return [entry[name] for entry in trained.state.log_history if name in entry]


with tempfile.TemporaryDirectory() as folder:
    rates = Rates()
    whole = trainer(folder, rates)
    whole.train()
    again = trainer(folder, Rates())
    again.train(resume_from_checkpoint=os.path.join(folder, "checkpoint-4"))
    weights = [t.model.classifier.weight.detach() for t in (whole, again)]
    predicted = whole.predict(data[24:]).predictions
    torch.manual_seed(2)
    bart = BartForConditionalGeneration(
        BartConfig(
            vocab_size=50,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            dropout=0,
            max_position_embeddings=32,
        )
    )
    pairs = [{"input_ids": row, "labels": row} for row in ids[:8]]
    arguments = Seq2SeqTrainingArguments(
        folder,
        max_steps=3,
        per_device_train_batch_size=4,
        predict_with_generate=True,
        generation_max_length=6,
        learning_rate=1e-2,
        optim="adafactor",
        save_strategy="no",
        **quiet,
    )
    translator = Seq2SeqTrainer(bart, arguments, train_dataset=pairs, eval_dataset=pairs)
    translator.train()
    made = translator.predict(pairs).predictions
show(
    losses=logged(whole, "loss"),
    norms=logged(whole, "grad_norm"),
    evaluated=logged(whole, "eval_loss"),
    accuracy=logged(whole, "eval_accuracy"),
    rates=rates.seen,
    went_on=logged(again, "loss"),
    same=(weights[0] - weights[1]).abs().max() < 1e-6,
    predicted=predicted.reshape(-1)[:16].tolist(),
    translator=logged(translator, "loss"),
    generated=made.reshape(-1)[:16].tolist(),
)
