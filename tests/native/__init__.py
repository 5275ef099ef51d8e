"""The device, asked through PyTorch, on the emulated SDK. torch_fl must be built: see tests/README.md."""
