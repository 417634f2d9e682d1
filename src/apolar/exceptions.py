"""The warnings of the library, by class, so that they can be filtered."""

__all__ = [
    "ApolarWarning",
    "CheckpointWarning",
    "CollapsedWarning",
    "ConstantColumnWarning",
    "DisagreementWarning",
    "EmptyComponentWarning",
    "SkippedStartWarning",
]


class ApolarWarning(UserWarning):
    """The base of all warnings of apolar."""


class CheckpointWarning(ApolarWarning):
    """A checkpoint could not be written; the fit goes on."""


class CollapsedWarning(ApolarWarning):
    """A component is without spread in some direction."""


class ConstantColumnWarning(ApolarWarning):
    """A column that says nothing of the rows is counted by a criterion."""


class DisagreementWarning(ApolarWarning):
    """Another optimum is nearly as likely, and parts the rows differently."""


class EmptyComponentWarning(ApolarWarning):
    """A component holds less than one row."""


class SkippedStartWarning(ApolarWarning):
    """The start that was asked for could not be made, and another took its place."""
