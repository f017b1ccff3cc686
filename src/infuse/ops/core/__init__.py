"""What an operator is: base classes, traits, formulas, samples; and what infers and runs it."""
