"""What can be proved about a decomposition: uniqueness, exact terms nearby, the least number of terms."""

from apolar.decomposition.proofs.certificates import Certificate, certificate

__all__ = ["Certificate", "certificate"]
