"""The addresses of the door, and of what everybody sets up for their own sign-in.

Two names for some of them: ours, and the one by which django-allauth looks for the page.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path
from django.views.generic import RedirectView

from recovery_ops.control.access.views import sign_in, sign_in_methods

_TO_THE_DOOR = login_not_required(RedirectView.as_view(pattern_name="sign-in"))

urlpatterns: list[URLPattern] = [
    path("sign-in", sign_in.SignIn.as_view(), name="sign-in"),
    path("sign-in", sign_in.SignIn.as_view(), name="account_login"),
    path("sign-in/passkey", sign_in.PasskeySignIn.as_view(), name="mfa_login_webauthn"),
    path("sign-in/code", sign_in.SecondFactor.as_view(), name="mfa_authenticate"),
    path("sign-in/with", sign_in.single_sign_on, name="single-sign-on"),
    path("sign-in/with/back", sign_in.single_sign_on_back, name="single-sign-on-back"),
    path("sign-in/with/cancelled", _TO_THE_DOOR, name="socialaccount_login_cancelled"),
    path("sign-in/again", sign_in.PasswordAgain.as_view(), name="sign-in-again"),
    path("sign-in/again", sign_in.PasswordAgain.as_view(), name="account_reauthenticate"),
    path("sign-in/again/code", sign_in.CodeAgain.as_view(), name="mfa_reauthenticate"),
    path("sign-in/again/passkey", sign_in.PasskeyAgain.as_view(), name="mfa_reauthenticate_webauthn"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
    path("settings/you/sign-in", sign_in_methods.own_sign_in, name="own-sign-in"),
    path("settings/you/sign-in", sign_in_methods.own_sign_in, name="mfa_index"),
    path("settings/you/sign-in/app", sign_in_methods.AddApp.as_view(), name="mfa_activate_totp"),
    path("settings/you/sign-in/app/remove", sign_in_methods.RemoveApp.as_view(), name="mfa_deactivate_totp"),
    path("settings/you/sign-in/codes", sign_in_methods.Codes.as_view(), name="mfa_view_recovery_codes"),
    path("settings/you/sign-in/codes/new", sign_in_methods.NewCodes.as_view(), name="mfa_generate_recovery_codes"),
    path("settings/you/sign-in/keys/add", sign_in_methods.AddKey.as_view(), name="mfa_add_webauthn"),
    path(
        "settings/you/sign-in/keys/<number:pk>/remove", sign_in_methods.RemoveKey.as_view(), name="mfa_remove_webauthn"
    ),
    path("settings/you/sign-in/keys", RedirectView.as_view(pattern_name="own-sign-in"), name="mfa_list_webauthn"),
    path("settings/you/sign-in/sessions/end", sign_in_methods.end, name="own-sessions-end"),
]
