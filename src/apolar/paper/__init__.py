"""The paper's tables and figures, with its printed values beside ours."""
