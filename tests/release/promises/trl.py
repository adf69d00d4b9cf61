"""`trl` takes rewards as functions of its trainers."""

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from editcritic.integrations.trl import EditingEnvironments, RewardFunction, make_preference_pairs

from .commands import editcritic

assert all(callable(one) for one in (GRPOConfig, GRPOTrainer, EditingEnvironments, make_preference_pairs))
reward = RewardFunction("guards")
rows = Dataset.from_list([{"prompt": "Make it blue", "id": "1"}])
assert rows.column_names
assert reward.__name__, reward
assert "rows" in editcritic("rows", "--help")
