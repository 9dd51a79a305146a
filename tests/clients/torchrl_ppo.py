"""torchrl: an environment with transforms, a replay buffer, advantages, PPO's losses."""

import torch
from show import show
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import Compose, GymEnv, StepCounter, TransformedEnv
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

torch.manual_seed(0)
env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(StepCounter()))
env.set_seed(0)
body = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2), NormalParamExtractor())
actor = ProbabilisticActor(
    TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"]),
    in_keys=["loc", "scale"],
    spec=env.action_spec,
    distribution_class=TanhNormal,
    distribution_kwargs={"low": -2.0, "high": 2.0},
    return_log_prob=True,
)
critic = ValueOperator(
    torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)), in_keys=["observation"]
)
with torch.no_grad():
    rollout = env.rollout(12, actor)
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
advantage(rollout)
objective = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
optimiser = torch.optim.Adam(objective.parameters(), lr=1e-3)
losses = []
for _ in range(3):
    terms = objective(rollout)
    loss = terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(32), batch_size=4)
buffer.extend(rollout.reshape(-1).detach())
torch.manual_seed(1)
sample = buffer.sample()
show(
    observation=rollout["observation"],
    action=rollout["action"],
    reward=rollout["next", "reward"],
    advantage=rollout["advantage"],
    losses=losses,
    steps=rollout["step_count"],
    sample=list(sample.shape),
    length=len(buffer),
)
