"""captum: five attributions of one network."""

import torch
from captum.attr import DeepLift, FeatureAblation, IntegratedGradients, LayerConductance, Saliency
from show import show

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
x = torch.randn(2, 6)
gradients, delta = IntegratedGradients(net).attribute(x, target=1, return_convergence_delta=True)
show(
    integrated=gradients,
    delta_is_small=bool(delta.abs().max() < 1e-2),
    saliency=Saliency(net).attribute(x, target=1),
    lift=DeepLift(net).attribute(x, target=1),
    ablation=FeatureAblation(net).attribute(x, target=1),
    conductance=LayerConductance(net, net[0]).attribute(x, target=1),
)
