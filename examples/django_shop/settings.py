"""The project's settings. Jobs are rows of the database that the orders are in."""

SECRET_KEY = "for development only"  # noqa: S105 - a real one comes from the environment
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
ROOT_URLCONF = "urls"
USE_TZ = True
INSTALLED_APPS = ["shop", "offpath.contrib.django"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
TASKS = {"default": {"BACKEND": "offpath.contrib.django.OffpathBackend"}}
