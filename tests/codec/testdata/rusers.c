/* Asks for who is logged in, by version 3 of rusers.x: one line a user. */
#include <stdio.h>
#include "rusers.h"

int main(int argc, char **argv)
{
	CLIENT *c = clnt_create(argv[1], RUSERSPROG, RUSERSVERS_3, "udp");
	utmp_array *users;
	int *count;
	u_int i;

	if (c == NULL) {
		clnt_pcreateerror(argv[1]);
		return 1;
	}
	count = rusersproc_num_3(NULL, c);
	users = rusersproc_names_3(NULL, c);
	if (count == NULL || users == NULL) {
		clnt_perror(c, argv[1]);
		return 1;
	}
	printf("%d\n", *count);
	for (i = 0; i < users->utmp_array_len; i++) {
		rusers_utmp *u = &users->utmp_array_val[i];
		printf("%s %s '%s' %d %d %u\n", u->ut_user, u->ut_line, u->ut_host, u->ut_type, u->ut_time, u->ut_idle);
	}
	return 0;
}
