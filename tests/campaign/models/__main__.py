"""`python -m tests.campaign.models SEED` judges one model."""

from . import main

main()
