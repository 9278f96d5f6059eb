"""A scripted model on loopback, so that the vendors' real programs run in tests without any network."""

from scripted_model.server import ScriptedModel, serve

__all__ = ["ScriptedModel", "serve"]
