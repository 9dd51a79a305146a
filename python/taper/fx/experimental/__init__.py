"""What PyTorch keeps under torch.fx.experimental."""
