"""stable-baselines3: PPO and DQN on CartPole for some steps, saved and loaded."""

import tempfile

import torch
from show import show
from stable_baselines3 import DQN, PPO

torch.set_num_threads(1)
policy = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, n_epochs=2, seed=0, device="cpu").learn(64)
values = DQN("MlpPolicy", "CartPole-v1", learning_starts=10, buffer_size=100, train_freq=4, seed=0, device="cpu").learn(
    60
)
start = torch.tensor([[0.01, 0.02, -0.03, 0.04]])
with tempfile.TemporaryDirectory() as folder:
    policy.save(folder + "/ppo")
    again = PPO.load(folder + "/ppo", device="cpu")
    same = torch.equal(again.policy.predict_values(start), policy.policy.predict_values(start))
show(
    value=policy.policy.predict_values(start),
    logits=policy.policy.get_distribution(start).distribution.logits,
    q=values.q_net(start),
    same=same,
)
