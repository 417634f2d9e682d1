"""Tables and figures of Khouja, Mattei and Mourrain (2022), with the printed values next to ours."""
