"""The judge server on Ray Serve: replicas behind one address. `application` is the builder that `serve run` and a
config file import; `judge_deployment` is for applications of several deployments.
"""

from ..server.settings import JudgeSettings
from .deployment import application, judge_deployment

__all__ = ["JudgeSettings", "application", "judge_deployment"]
