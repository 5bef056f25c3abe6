"""Writers of ONNX graphs, one file per family."""
