mpa2-core-objs :=
