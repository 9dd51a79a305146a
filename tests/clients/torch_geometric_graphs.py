"""PyTorch Geometric: graphs in batches, convolutions and pooling; two steps of training, a sparse product, a sampled
loader."""

import torch
from show import show
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import degree, softmax, to_dense_adj, to_undirected

torch.manual_seed(0)


def graph(n, label):
    edges = to_undirected(torch.stack([torch.arange(n - 1), torch.arange(1, n)]))
    return NormalizeFeatures()(Data(x=torch.rand(n, 6), edge_index=edges, y=torch.tensor([label])))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(6, 16), SAGEConv(16, 16)
        self.third = GATConv(16, 8, heads=2)
        self.fourth = GINConv(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16)))
        self.out = torch.nn.Linear(16, 2)

    def forward(self, batch):
        x = self.first(batch.x, batch.edge_index).relu()
        x = self.second(x, batch.edge_index).relu()
        x = self.fourth(self.third(x, batch.edge_index).relu(), batch.edge_index)
        return self.out(global_mean_pool(x, batch.batch))


graphs = [graph(4 + i, i % 2) for i in range(6)]
net = Net()
optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
losses = []
for batch in DataLoader(graphs, batch_size=3):
    optimiser.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(batch), batch.y)
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
whole = Batch.from_data_list(graphs)
show(
    losses=losses,
    logits=net(whole),
    degree=degree(whole.edge_index[0]),
    adjacency=to_dense_adj(graphs[0].edge_index).sum(),
    softmax=softmax(torch.arange(4.0), torch.tensor([0, 0, 1, 1])),
)
