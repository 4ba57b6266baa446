"""Graphs: a Scenario written as an ONNX model (write), and an ONNX model read back as a Problem (read)."""
