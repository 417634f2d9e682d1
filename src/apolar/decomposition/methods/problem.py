"""What a method is asked to solve."""

from dataclasses import dataclass

from apolar.decomposition.candidates import Budget
from apolar.decomposition.flattening import Flattening
from apolar.decomposition.ranks import RankRule, resolved_rank
from apolar.tensor import SymmetricTensor


@dataclass(frozen=True, eq=False)
class Problem:
    """A tensor to decompose, and how.

    Attributes
    ----------
    tensor : SymmetricTensor
        Of order at least 3, not zero, of moderate size.
    flattening : Flattening
    rank : int, callable or None
        As `decompose` takes it.
    field : {"auto", "real", "complex"}
    refine : bool
    budget : Budget
    """

    tensor: SymmetricTensor
    flattening: Flattening
    rank: int | RankRule | None
    field: str
    refine: bool
    budget: Budget

    def resolved_rank(self) -> tuple[int, str]:
        """Return the number of terms and where it comes from, without a search."""
        return resolved_rank(self.rank, self.flattening.singular_values)

    def check_limit(self, rank: int, limit: int, method: str) -> None:
        """Refuse a rank above that of a method."""
        if rank > limit:
            raise ValueError(
                f"Rank {rank} is above what method='{method}' can find in a tensor of order "
                f"{self.tensor.order} in {self.tensor.dim} variables: {limit}. Use method='auto', or a lower "
                "rank."
            )
