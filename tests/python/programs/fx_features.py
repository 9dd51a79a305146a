"""Values from inside torchvision's models: the names of nodes and what an extractor gives."""

import torch
import torchvision
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

for name in ("resnet18", "mobilenet_v3_small", "vit_b_32", "swin_t"):
    train, evaluation = get_graph_node_names(getattr(torchvision.models, name)())
    print(name, len(train), train == evaluation, train[:40], train[-5:])

model, x = torchvision.models.resnet18(), torch.zeros(1, 3, 64, 64)
features = create_feature_extractor(
    model, {"layer1": "first", "layer2.0.relu_1": "inner", "flatten": "flat", "fc": "out"}
)
print({name: tuple(value.shape) for name, value in features(x).items()}, type(features).__name__, features.training)
features = create_feature_extractor(model, train_return_nodes=["layer1"], eval_return_nodes={"layer2": "second"})
print(list(features(x)), list(features.eval()(x)), len(features.state_dict()))
for wrong in ({"return_nodes": ["nothing"]}, {}, {"train_return_nodes": ["fc"]}):
    try:
        create_feature_extractor(model, **wrong)
    except ValueError as error:
        print(error)
