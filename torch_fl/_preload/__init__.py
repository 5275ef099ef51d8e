"""Find, plan and open the vendor libraries. Standard library only; no torch, no printing."""
