"""Values of jobs: what is made, sent, held and ended. They know no app and no worker."""
