"""Plans: logical nodes, the rules that rewrite them, and the physical plans that they are lowered to."""
