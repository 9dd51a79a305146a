"""skorch: a network as one of scikit-learn's estimators, in a pipeline and a grid search."""

import numpy
import torch
from show import show
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier

numpy.random.seed(0)
x = numpy.random.randn(80, 6).astype("float32")
y = (x[:, 0] + x[:, 1] > 0).astype("int64")


class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, width), torch.nn.ReLU(), torch.nn.Linear(width, 2), torch.nn.Softmax(-1)
        )

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
net = NeuralNetClassifier(Net, max_epochs=5, lr=0.1, verbose=0, train_split=None, batch_size=16)
pipe = make_pipeline(StandardScaler(), net).fit(x, y)
torch.manual_seed(0)
search = GridSearchCV(net, {"module__width": [4, 8]}, cv=2, scoring="accuracy", refit=False).fit(x, y)
show(
    losses=pipe[-1].history[:, "train_loss"],
    chances=pipe.predict_proba(x)[:8, 0].tolist(),
    scores=search.cv_results_["mean_test_score"].tolist(),
)
