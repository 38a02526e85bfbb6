import sys
from pathlib import Path

TRAINING = Path(__file__).parents[3] / "training"
sys.path.insert(0, str(TRAINING))  # its scripts are run from there, and are no part of the package
